"""A headless Chromium that shows a report and tells what the report did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --force-device-scale-factor=1"
)
_PATIENCE = 60  # seconds, for a machine that does other things as well


class Chromium:
    """Shows one page at a time, anew for every `show`: screens and media features of one test do not reach the next."""

    def __init__(self, binary: str, driver: str, profile: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for flag in (*_FLAGS.split(), f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options, webdriver.ChromeService(driver))
        self.driver.set_script_timeout(_PATIENCE)

    def quit(self) -> None:
        self.driver.quit()

    def show(self, page: Path, *, width: int = 1280, media: str = "screen", **features: str) -> None:
        """Open the page and wait until its charts are drawn. features: `prefers_color_scheme="dark"` and the like

        Without motion unless asked, so that clicks hit what they are meant for.
        """
        features = {"prefers_reduced_motion": "reduce", **features}
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.cdp("Emulation.setDeviceMetricsOverride", screen)
        values = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.cdp("Emulation.setEmulatedMedia", {"media": media, "features": values})
        self.logs("browser"), self.logs("performance")
        self.driver.get(page.as_uri())
        self.wait("return [...document.querySelectorAll('.drawing')].every((d) => d.querySelector('svg'))")

    def cdp(self, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        return self.driver.execute_cdp_cmd(command, dict(arguments or {}))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str) -> None:
        WebDriverWait(self.driver, _PATIENCE, 0.05).until(lambda _: self.run(script))

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def press(self, key: str) -> None:
        self.driver.switch_to.active_element.send_keys(getattr(Keys, key))

    def logs(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last call."""
        return list(self.driver.get_log(kind))

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.logs("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
