# SPDX-License-Identifier: GPL-2.0-or-later
"""Chromium without a screen, controlled by WebDriver requests to chromedriver."""
import base64
import http.client
import json
import subprocess
import time

PATIENCE = 60
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"     # a name of the protocol
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
           "--force-device-scale-factor=1", "--hide-scrollbars"]
CODES = {"Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c", "ArrowLeft": "\ue012",
         "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Shift": "\ue008"}


class Browser:
    """A window of a browser."""

    def __init__(self, width=1400, height=900):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, encoding="utf-8")
        port = None
        for line in self.driver.stdout:
            if "started successfully on port " in line:
                port = int(line.rpartition(" ")[2].strip(". \n"))
                break
        if port is None:
            raise AssertionError("chromedriver has not started")
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.path = ""
        session = self.send("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": [*OPTIONS, f"--window-size={width},{height}"]}}}})
        self.path = f"/session/{session['sessionId']}"
        self.send("POST", "/window/rect", {"width": width, "height": height})

    def send(self, method, path, body=None):
        """Sends a request of the protocol. Return: its value"""
        self.http.request(method, self.path + path, None if body is None else json.dumps(body))
        value = json.loads(self.http.getresponse().read())["value"]
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{path}: {value['error']}: {value['message']}")
        return value

    def open(self, url):
        """Opens a URL; waits until the page and its script are loaded."""
        self.send("POST", "/url", {"url": url})

    def run(self, script, *args):
        """The result of a function with this text in the page."""
        return self.send("POST", "/execute/sync", {"script": script, "args": list(args)})

    def until(self, script, *args):
        """Waits for the first value of a function that is true."""
        end = time.monotonic() + PATIENCE
        while not (value := self.run(script, *args)):
            if time.monotonic() > end:
                raise AssertionError(f"never: {script} {args}: {self.text('body')}")
        return value

    def text(self, selector):
        """The text of an element."""
        return self.run("return document.querySelector(arguments[0])?.innerText || ''", selector)

    def click(self, x, y, key=None):
        """Clicks at a place of the window, with a key held if one is given."""
        keys = [{"type": kind, "value": CODES[key]} if key else {"type": "pause"}
                for kind in ("keyDown", "keyUp")]
        self.actions([keys[0], {"type": "pause"}, {"type": "pause"}, keys[1]], [
            {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0},
            {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0},
            {"type": "pause"}])

    def press(self, *keys):
        """Presses keys, one after the other."""
        self.actions([{"type": kind, "value": CODES.get(key, key)} for key in keys
                      for kind in ("keyDown", "keyUp")])

    def actions(self, keys, pointer=()):
        """Performs actions of a keyboard and a mouse at the same time."""
        devices = [{"type": "key", "id": "keys", "actions": list(keys)}]
        if pointer:
            devices.append({"type": "pointer", "id": "mouse", "actions": list(pointer)})
        self.send("POST", "/actions", {"actions": devices})

    def push(self, name, within="body"):
        """Clicks the button with this text."""
        self.run("const b = [...document.querySelectorAll(arguments[1] + ' button')].find("
                 "b => b.textContent === arguments[0]);"
                 "if (!b) throw new Error('no button ' + arguments[0]); b.click();", name, within)

    def picture(self, path):
        """Takes a PNG of the window."""
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.send("GET", "/screenshot")))

    def complaints(self):
        """The errors and warnings of the console."""
        return [entry["message"] for entry in self.send("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def end(self):
        """Ends the browser and its driver."""
        try:
            self.send("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
