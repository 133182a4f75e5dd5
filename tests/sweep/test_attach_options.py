"""What may be said of servers that already run, and what no message ever repeats."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from specbench.errors import SpecbenchError
from specbench.speculation import BASELINE, Speculation
from specbench.sweep.attach_options import base_url
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import load_config, save_config
from specbench.sweep.plan import make_plan

SERVER: dict[str, Any] = {"workload": ["chat.jsonl"], "backend": "attach", "url": "http://127.0.0.1:8000"}


def test_arms_are_the_servers_that_there_are() -> None:
    attached = Speculation("unknown", attached=True)
    assert load_config(None, SERVER).speculations() == (attached,)
    both = {**SERVER, "baseline_url": "http://127.0.0.1:8001"}
    assert load_config(None, both).speculations() == (BASELINE, attached)
    named = load_config(None, {**both, "method": ["eagle3"], "gamma": [3]})
    assert named.speculations() == (BASELINE, Speculation("eagle3", 3, attached=True))
    assert load_config(None, {**SERVER, "method": ["none"]}).speculations() == (BASELINE,)


def test_turns_alternate_between_the_servers() -> None:
    config = load_config(None, {**SERVER, "baseline_url": "http://127.0.0.1:8001", "replicates": 2, "gamma": [4]})
    ids = [launch.id for launch in make_plan(config).launches]
    assert ids == ["none-r0", "unknown-g4-r0", "unknown-g4-r1", "none-r1"]


def test_a_saved_configuration_reads_back_the_same(tmp_path: Any) -> None:
    config = load_config(
        None, {**SERVER, "api_key_env": "KEY", "header_env": {"X-Token": "TOKEN"}, "ca_file": "ca.pem"}
    )
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml", {}) == config
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["api_key_env"] == "KEY"


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_an_address_is_the_same_with_and_without_v1(url: str) -> None:
    assert base_url(url) == "http://h:1"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"url": None}, "needs --url"),
        ({"url": "127.0.0.1:8000"}, "no URL"),
        ({"url": "http://user:hunter22@h:1"}, "--header-env Authorization=VARIABLE"),
        ({"url": "http://h:1/?api_key=hunter22"}, "begins with"),
        ({"baseline_url": "http://127.0.0.1:8000/v1"}, "same server"),
        ({"gamma": [2, 4]}, "one method and one gamma"),
        ({"method": ["ngram", "eagle3"]}, "one method and one gamma"),
        ({"dtype": "bfloat16"}, "--dtype is for starting a server"),
        ({"drafter": {"eagle3": "x"}, "method": ["eagle3"]}, "--drafter is for starting a server"),
        ({"header": {"X-Api-Key": "hunter22"}}, "--header-env X-Api-Key=VARIABLE"),
        ({"header": {"Authorization": "Bearer hunter22"}}, "--header-env Authorization=VARIABLE"),
        ({"header": "Authorization: hunter22"}, "--header"),
        ({"header": {"X Team": "a"}}, "no name of a header"),
        # As `--header "Authorization: Bearer hunter22=="` is read, and the like.
        ({"header": {"Authorization: Bearer hunter22": "="}}, "no name of a header"),
        ({"header_env": {"Authorization: Bearer hunter22": "="}}, "no name of a header"),
        ({"header": {"hunter22": "="}}, "no value"),
        ({"header_env": {"hunter22": "="}}, "no value"),
        ({"header": {"X-Auth": "hunter22"}}, "--header-env X-Auth=VARIABLE"),
        ({"header": {"X-Session-Id": "hunter22"}}, "--header-env X-Session-Id=VARIABLE"),
        ({"header": {"X-Signature": "hunter22"}}, "--header-env X-Signature=VARIABLE"),
        ({"header": {"X-Pass": "hunter22"}}, "--header-env X-Pass=VARIABLE"),
        ({"header": {"X-Team": "a\nb: hunter22"}}, "one line"),
        ({"api_key_env": "sk-hunter22"}, "never the key itself"),
        ({"header_env": {"X-Token": "hunter22"}}, "never the value itself"),
        ({"backend": "vllm"}, "add --backend attach"),
    ],
)
def test_what_cannot_be_is_a_sentence_without_a_secret(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecbenchError) as raised:
        load_config(None, {**SERVER, **changed})
    assert message in str(raised.value)
    assert "hunter22" not in str(raised.value)


def test_other_backends_still_need_a_method_and_a_gamma() -> None:
    for given in ({"gamma": []}, {"method": ["unknown"]}):
        with pytest.raises(SpecbenchError, match="only --backend attach"):
            load_config(None, {"workload": ["chat.jsonl"], **given})
    assert SweepConfig(workload=("chat.jsonl",)).speculations()[0] == BASELINE  # type: ignore[arg-type]
