"""The engine's thread: takes requests in, steps the engine, hands out what each step gave."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from specbench.decoder.engine import Engine
from specbench.decoder.request import Request, RequestFailed, StepOutput

logger = logging.getLogger(__name__)

Deliver = Callable[[StepOutput | Exception], None]
"""Called on the engine's thread with each output of a request, or with what ended it."""


@dataclass(frozen=True, slots=True)
class _Add:
    request: Request
    deliver: Deliver


@dataclass(frozen=True, slots=True)
class _Abort:
    request_id: str


class Worker:
    """Makes an engine and owns it: only its thread touches it. The methods may be called from any other.

    The thread that steps the engine must also have loaded it. OpenMP gives every thread that computes a team of its
    own, and once these have more threads than there are cores, those that wait no longer spin but sleep, and every
    step is slower.

    engine:  made by then; read only what does not change, and counters
    failure: what broke the engine, for good; None while it works
    """

    def __init__(self, make_engine: Callable[[], Engine]) -> None:
        """Returns once the engine is made. Raises what `make_engine` raises."""
        self.failure: Exception | None = None
        self._made: Future[Engine] = Future()
        self._inbox: queue.SimpleQueue[_Add | _Abort | None] = queue.SimpleQueue()
        self._deliver: dict[str, Deliver] = {}
        self._thread = threading.Thread(target=self._run, name="engine", args=(make_engine,), daemon=True)
        self._thread.start()
        self.engine = self._made.result()

    def add(self, request: Request, deliver: Deliver) -> None:
        """Queue a request, which the engine must accept (`Engine.check_prompt`)."""
        self._inbox.put(_Add(request, deliver))

    def abort(self, request_id: str) -> None:
        """Drop a request if it is still here. What its last step gave may still be delivered."""
        self._inbox.put(_Abort(request_id))

    def stop(self) -> None:
        """End the thread after the step it is in; wait for that, but not long."""
        self._inbox.put(None)
        self._thread.join(timeout=1.0)

    def _run(self, make_engine: Callable[[], Engine]) -> None:
        try:
            engine = make_engine()
        except Exception as error:
            self._made.set_exception(error)
            return
        self._made.set_result(engine)
        try:
            while self._take_in(engine):
                self._step(engine)
        except Exception as error:
            logger.exception("the engine failed")
            self.failure = error
            for deliver in self._deliver.values():
                deliver(error)
            self._refuse(error)

    def _step(self, engine: Engine) -> None:
        try:
            outputs = engine.step()
        except RequestFailed as error:
            logger.exception("a request failed")
            self._deliver.pop(error.request_id)(error)
            return
        for output in outputs:
            self._hand_out(output)

    def _refuse(self, error: Exception) -> None:
        """Answer whoever still comes, so that nobody waits for ever."""
        while (message := self._inbox.get()) is not None:
            if isinstance(message, _Add):
                message.deliver(error)

    def _take_in(self, engine: Engine) -> bool:
        """Empty the inbox; wait for it while there is nothing to do. False when the thread shall end."""
        while True:
            try:
                message = self._inbox.get(block=not engine.has_work)
            except queue.Empty:
                return True
            match message:
                case None:
                    return False
                case _Add(request, deliver):
                    self._deliver[request.id] = deliver
                    engine.add(request)
                case _Abort(request_id):
                    self._deliver.pop(request_id, None)
                    engine.abort(request_id)

    def _hand_out(self, output: StepOutput) -> None:
        self._deliver[output.request_id](output)
        if output.finish_reason is not None:
            del self._deliver[output.request_id]
