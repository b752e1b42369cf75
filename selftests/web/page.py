#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The web page of superp-cm in a headless Chromium, among simulated agents, in a network namespace of its own.
Runs in the build root: selftests/vm/in-root selftests/web/page.py. Pictures are left in build/results/page."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "selftests/robust"), str(TOP / "selftests/web")]
sys.dont_write_bytecode = True

from agents import Agents  # noqa: E402
from manager import MANAGER, Manager, same, until  # noqa: E402
from node import Results, run  # noqa: E402
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

PICTURES = TOP / "build/results/page"
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --window-size=1440,1000"
).split()
KILLED = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE_CHUNKED_ENCODING")
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"

# Ratio of the luminances of a text and what is behind it, and the texts for which it is too small for WCAG AA.
CONTRAST = """
const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const numbers = (text) => text.match(/[0-9.]+/g).map(Number);
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const colour = numbers(getComputedStyle(node).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const found = [];
for (const node of document.querySelectorAll("body *")) {
  const words = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  if (!words || !node.checkVisibility() || node.matches(".skip, option")) continue;
  const [one, other] = [numbers(getComputedStyle(node).color), behind(node)].map(luminance);
  const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  const text = node.textContent.slice(0, 30);
  if (ratio < 4.5) found.push(`${node.tagName}.${node.className} "${text}" ${ratio.toFixed(2)}`);
}
return [document.querySelectorAll("body *").length, found];
"""


class Page:
    """The page in a browser."""

    def __init__(self, folder):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for option in (*OPTIONS, f"--user-data-dir={folder}/browser"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
        self.driver.set_script_timeout(60)
        self.logged = []

    def open(self, url):
        self.driver.get("about:blank")
        self.driver.get(url)
        # Whoever loads the page anew loses it.
        self.js("window.untouched = true")

    def js(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """Of all that matches, a line each, as it stands in the document."""
        return self.js(
            "return [...document.querySelectorAll(arguments[0])].map((n) => n.textContent).join('\\n')", selector
        )

    def visible(self, selector):
        return self.js("return Boolean(document.querySelector(arguments[0])?.checkVisibility())", selector)

    def shows(self, selector, text, seconds=30):
        until(
            lambda: f"{selector}: {text!r}, found {self.text(selector)!r}", lambda: text in self.text(selector), seconds
        )

    def cells(self):
        """Class and text of every cell, a list for each row."""
        return self.js(
            "return [...document.querySelectorAll('#matrix tbody tr')].map((row) => [...row.querySelectorAll('td')]"
            ".map((cell) => [cell.className, cell.textContent]))"
        )

    def cell(self, one, other):
        return self.all("#matrix tbody tr")[one - 1].find_elements(By.TAG_NAME, "td")[other - 1]

    def theme(self, name):
        feature = {"name": "prefers-color-scheme", "value": name}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def picture(self, name, width=1440, height=1000):
        self.driver.set_window_size(width, height)
        self.driver.save_screenshot(str(PICTURES / f"{name}.png"))

    def complaints(self):
        """What the console has, but for requests to a manager that was killed, and pages of the browser itself."""
        self.logged += self.driver.get_log("browser")
        texts = [entry["message"] for entry in self.logged if not entry["message"].startswith("chrome://")]
        return [text for text in texts if not any(f"net::{why}" in text for why in KILLED)]


def empty():
    page.open(manager.url)
    page.shows("#fabric", "No fabric yet")
    page.shows("#phase", "empty")


def boots():
    agents.start(1, 2, 3)
    manager.apply(agents.fabric(4))
    page.shows("#waiting-list", "node xpu04: waiting for READY: connection refused by 127.16.0.4:7779")
    same(page.visible("#waiting"), True, "list of what is waited for")
    page.shows("#phase", "booting")
    page.shows("#ready", "3 of 4")
    page.shows("#nodes tbody tr:nth-child(4) td:nth-child(2)", "no answer: connection refused")
    page.shows("#sum-silent", "1 of 4")
    agents.start(4)
    page.shows("#phase", "running")
    page.shows("#running", "6 of 6")
    until("nothing is waited for", lambda: not page.visible("#waiting"))
    page.shows("#ready", "4 of 4")
    page.shows("#events .text", "every node is ready: start operations")
    same(page.driver.title, "lab: running – SUPERp", "title")
    same(page.js("return window.untouched"), True, "the page was not loaded again")


def cells():
    wanted = [[["self", ""] if one == other else ["established", "●"] for other in range(4)] for one in range(4)]
    until(lambda: f"all established: {page.cells()}", lambda: page.cells() == wanted)
    names = [f"xpu{number:02}" for number in range(1, 5)]
    same(page.text("#matrix tbody th").split("\n"), names, "rows")
    same(page.text("#matrix thead th").split("\n"), names, "columns")
    # A ring has fewer.
    file = agents.fabric(4).replace("mesh = ", "ring = ")
    manager.apply(file)
    ring = [
        ["self" if one == other else "none" if (one - other) % 4 == 2 else "established" for other in range(4)]
        for one in range(4)
    ]
    until(lambda: f"a ring: {page.cells()}", lambda: [[kind for kind, _ in row] for row in page.cells()] == ring)
    manager.apply(agents.fabric(4))
    until("all again", lambda: page.cells() == wanted)


def two_of_a_pair():
    more = '[[connections]]\npairs = [["xpu01", "xpu02"]]\nencap = "udp4"\n'
    manager.apply(agents.fabric(4) + more)
    page.shows("#running", "7 of 7")
    page.cell(1, 2).click()
    page.shows("#detail-heading", "Connections of xpu01 and xpu02")
    links = page.text("#detail-body a").split("\n")
    same(len(links), 2, "connections of the pair")
    page.all("#detail-body a")[1].click()
    page.shows("#detail-heading", links[1])
    page.all("#detail-close")[0].click()
    manager.apply(agents.fabric(4))
    page.shows("#running", "6 of 6")


def nodes():
    page.shows("#nodes tbody tr:nth-child(2) td:nth-child(2)", "started")
    row = page.text("#nodes tbody tr:nth-child(2) > *").split("\n")
    for wanted in ("xpu02", "10.23.0.2", "eth0 (sunh, udp); eth1 (udp)", "127.16.0.2:7779", HOSTILE):
        if wanted not in row:
            raise AssertionError(f"no {wanted} in {row}")
    agents.call(agents.all[3].ports_down.add, "eth1")
    page.shows("#nodes tbody tr:nth-child(3) td:nth-child(4)", "eth1 (udp) ✕ down")
    agents.call(agents.all[3].ports_down.clear)


def number(text):
    value, _, rest = text.partition("/")[0].partition(" ")
    return float(value) * {"k": 1e3, "M": 1e6, "G": 1e9}.get(rest[:1], 1)


def rates():
    page.shows("#sum-packets", "0/s")
    if any("traffic" in end or "counters" in end for conn in manager.get("/v1/connections") for end in conn["ends"]):
        raise AssertionError("counters that nobody asked for")
    for agent in agents.all.values():
        agent.rate, agent.again = 1000, 20
    near = lambda selector, wanted: until(
        lambda: f"{selector} near {wanted}: {page.text(selector)}",
        lambda: page.text(selector)[0].isdigit() and 0.8 < number(page.text(selector)) / wanted < 1.2,
    )
    near("#sum-packets", 12_000)
    near("#sum-bytes", 12_000 * 1024)
    near("#sum-retransmits", 12 * 20)
    page.shows("#sum-retransmits", " %)")
    near("#nodes tbody tr:nth-child(1) td:nth-child(6)", 3000)
    near("#nodes tbody tr:nth-child(1) td:nth-child(8)", 60)
    for mode, kind in (("packets", "packets level2"), ("retransmits", "retransmits level2")):
        page.all(f"#matrix-mode option[value={mode}]")[0].click()
        same(page.cells()[0][1][0], kind, f"cell that shows {mode}")
    page.all("#matrix-mode option[value=state]")[0].click()
    # Pointed at, it tells.
    page.js("arguments[0].dispatchEvent(new PointerEvent('pointerover', { bubbles: true }))", page.cell(1, 3))
    page.shows("#matrix-tell", "xpu01 to xpu03: established; sends ")
    same(page.cell(1, 3).get_attribute("aria-label"), page.text("#matrix-tell"), "label")


def drill_down():
    connection, _ = manager.connection("xpu02", "xpu03")
    page.cell(2, 3).click()
    page.shows("#detail-heading", f"Connection {connection['connection']}")
    same(page.js("return decodeURIComponent(location.hash)"), f"#connection={connection['connection']}", "address")
    heads = page.text("#detail .ends thead th").split("\n")
    same(heads, [end["node"] for end in connection["ends"]], "ends")
    page.shows("#detail .ends", "established")
    page.shows("#detail .facts", str(connection["start_psn"]))
    page.shows("#counters", "retrans-fast")
    summary = page.all("#counters summary")[0]
    summary.click()
    page.shows("#counters summary", "All counters (20)")
    rounds = int(page.js("return document.body.dataset.rendered"))
    until("two more rounds", lambda: int(page.js("return document.body.dataset.rendered")) > rounds + 1)
    same(page.js("return document.activeElement === document.querySelector('#counters summary')"), True, "focus stays")
    same(page.js("return document.querySelector('#counters').open"), True, "counters stay unfolded")
    same("chosen" in page.cells()[1][2][0] and "chosen" in page.cells()[2][1][0], True, "marked in the matrix")
    page.all("#detail-close")[0].click()
    same(page.visible("#detail"), False, "detail after it was closed")
    # By its address, and by keys.
    page.open(f"{manager.url}/#connection={connection['connection']}")
    page.shows("#detail .ends", "xpu03")
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.all("#detail-close")[0].send_keys(Keys.ENTER)
    until("detail is closed", lambda: not page.visible("#detail"))
    same(page.driver.switch_to.active_element, page.cell(2, 3), "the focus is where it was opened")
    for key in (Keys.ARROW_UP, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER):
        page.driver.switch_to.active_element.send_keys(key)
    page.shows("#detail-heading", manager.connection("xpu01", "xpu04")[0]["connection"])
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    until("Escape closes it", lambda: not page.visible("#detail"))
    page.open(f"{manager.url}/#connection=1@10.9.9.9-1@10.9.9.8")
    page.shows("#detail-body", "There is no connection 1@10.9.9.9-1@10.9.9.8")


def breaks():
    connection, side = manager.connection("xpu01", "xpu04")
    page.open(f"{manager.url}/#connection={connection['connection']}")
    page.shows("#detail .ends", "established")
    page.shows("#events-state", "live")
    agents.break_connection(1, connection["ends"][side]["cid"], HOSTILE)
    page.shows("#events .text", f"hard error: {HOSTILE}; both ends are reset and started again", 10)
    page.shows("#events .text", f": broken: {HOSTILE}", 10)
    page.shows("#detail-events", "both ends are reset and started again", 10)
    page.shows("#detail-events", f": broken: {HOSTILE}", 10)
    page.shows("#detail .facts", "Lives before1")
    until("it runs again", manager.running)
    until("and is shown so", lambda: page.cells()[0][3][0].startswith("established"))
    same(page.js("return window.untouched"), True, "the page was not loaded again")


def stays_down():
    manager.apply(agents.fabric(4, more='broken = "stop"\n'))
    until("it runs", manager.running)
    connection, side = manager.connection("xpu02", "xpu04")
    agents.break_connection(2, connection["ends"][side]["cid"], "the peer does not answer")
    until("both cells tell", lambda: page.cells()[1][3] == page.cells()[3][1] == ["broken", "✕"])
    page.shows("#sum-broken", "1 of 6")
    same(page.driver.title[0], "✕", "title")
    request = urllib.request.Request(f"{manager.url}/v1/connections/{connection['connection']}/restart", b"")
    urllib.request.urlopen(request, timeout=60).close()
    until("neither does any more", lambda: page.cells()[1][3] == page.cells()[3][1] == ["established", "●"])


def markup():
    same(
        page.js("return document.querySelectorAll('main img, main script, b.text, td b').length"),
        0,
        "elements made of text",
    )
    if HOSTILE not in page.text("#events .text") or HOSTILE not in page.text("#nodes td"):
        raise AssertionError("the text is not there")
    for what in ("document.createElement('p').innerHTML = 'x'", "document.createElement('script').textContent = 'x'"):
        refused = page.js("try { " + what + "; return ''; } catch (error) { return error.name; }")
        if not refused:
            raise AssertionError(f"{what} is allowed")
        page.logged += page.driver.get_log("browser")
    # Those were on purpose.
    page.logged = [entry for entry in page.logged if "requires 'Trusted" not in entry["message"]]


def pause_and_filter():
    connection, side = manager.connection("xpu01", "xpu02")
    shown = lambda: page.text("#events li")
    page.all("#events-pause")[0].click()
    before = shown()
    agents.call(agents.all[1].report_state, agents.all[1].conns[connection["ends"][side]["cid"]])
    page.shows("#events-state", "paused, 1 new")
    same(shown(), before, "events while paused")
    page.all("#events-pause")[0].click()
    until("the event after the pause", lambda: len(shown()) > len(before))
    page.all("#events-filter")[0].send_keys("XPU04")
    lines = shown().split("\n")
    if not lines or any("xpu04" not in line.lower() and "10.23.0.4" not in line for line in lines):
        raise AssertionError(f"the filter lets through {lines}")
    page.all("#events-filter")[0].clear()
    page.all("#events-kind option[value=phase]")[0].click()
    same(set(page.text("#events .kind").split("\n")), {"phase"}, "kinds")
    page.all("#events-kind option[value='']")[0].click()


def manager_ends():
    term = int(page.text("#term"))
    manager.kill()
    until("the page tells", lambda: page.visible("#lost"), 15)
    page.shows("#lost", "No answer from the manager since ")
    same(page.js("return document.body.classList.contains('stale')"), True, "what is shown is marked as old")
    page.shows("#events-state", "no stream")
    manager.up()
    until("and takes it back", lambda: not page.visible("#lost"), 15)
    page.shows("#term", str(term + 1))
    page.shows("#events-state", "live")
    same(page.js("return document.body.classList.contains('stale')"), False, "what is shown is new")
    count = len(page.all("#events li"))
    connection, side = manager.connection("xpu01", "xpu02")
    agents.call(agents.all[1].report_state, agents.all[1].conns[connection["ends"][side]["cid"]])
    until("the next event comes", lambda: len(page.all("#events li")) == count + 1, 15)
    same(page.js("return window.untouched"), True, "the page was not loaded again")


def themes():
    connection, _ = manager.connection("xpu01", "xpu02")
    page.open(f"{manager.url}/#connection={connection['connection']}")
    page.shows("#detail .ends", "packets/s")
    page.shows("#sum-packets", "k/s")
    backs = []
    for theme in ("light", "dark"):
        page.theme(theme)
        for mode in ("packets", "retransmits", "state"):
            page.all(f"#matrix-mode option[value={mode}]")[0].click()
            looked, found = page.js(CONTRAST)
            same(found, [], f"{theme}: too little contrast, of {looked} elements")
        backs.append(page.js("return getComputedStyle(document.body).backgroundColor"))
    same(len(set(backs)), 2, f"backgrounds {backs}")
    until("points of the curve", lambda: page.js("return document.querySelector('.curve').points.numberOfItems") > 8)
    page.picture("detail-dark")
    page.theme("light")
    page.all("#detail-close")[0].click()
    page.picture("four-light")


def sixty_four():
    big.start(*range(1, 65))
    page.open(large.url)
    page.shows("#phase", "empty")
    begin = time.monotonic()
    large.apply(big.fabric(64, "rack"))
    fabric = until("64 nodes run", large.running, 180)
    booted = time.monotonic() - begin
    same((fabric["nodes_ready"], fabric["connections_running"]), (64, 2016), "nodes and connections")
    page.shows("#running", "2016 of 2016")
    shown = time.monotonic() - begin
    note(f"64 nodes, 2016 connections: running after {booted:.2f} s, on the page after {shown:.2f} s")

    def count():
        flat = [cell for row in page.cells() for cell in row]
        return len(flat), flat.count(["self", ""]), flat.count(["established", "●"])

    until(lambda: f"all cells: {count()}", lambda: count() == (4096, 64, 4032))


def sixty_four_change():
    for at, agent in big.all.items():
        agent.rate, agent.again = 40 * at * at, at // 8
    page.shows("#sum-packets", "M/s")
    # What is written to the matrix between now and the end.
    page.js(
        "window.written = new Set(); new MutationObserver((list) => { for (const change of list)"
        " if (change.target.closest('td')) window.written.add(change.target.closest('td')); })"
        ".observe(document.getElementById('matrix'),"
        " { subtree: true, childList: true, attributes: true, characterData: true })"
    )
    large.apply(big.fabric(64, "rack", 'broken = "stop"\n'))
    until("it runs", large.running)
    until("all nodes have it", lambda: page.text("#ready") == "64 of 64")
    connection, side = large.connection("xpu17", "xpu42")
    begin = time.monotonic()
    big.break_connection(17, connection["ends"][side]["cid"], "the peer does not answer")
    until("the cell tells", lambda: page.cell(17, 42).get_attribute("class") == "broken", 30)
    note(f"a connection of 2016 breaks: in the matrix after {time.monotonic() - begin:.2f} s")
    until("the other too", lambda: page.cell(42, 17).get_attribute("class") == "broken", 30)
    same(page.js("return window.written.size"), 2, "cells that were written")
    metrics = lambda: {
        m["name"]: m["value"] for m in page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    }
    page.driver.execute_cdp_cmd("Performance.enable", {})
    rounds = lambda: int(page.js("return document.body.dataset.rendered"))
    before, first = metrics(), rounds()
    until("some rounds", lambda: rounds() >= first + 4)
    after, count = metrics(), rounds() - first
    spent = 1000 * (after["TaskDuration"] - before["TaskDuration"]) / count
    size = page.js(
        "return performance.getEntriesByType('resource')"
        ".filter((entry) => entry.name.includes('/v1/connections?')).at(-1).encodedBodySize"
    )
    note(f"64 nodes: an update is {size / 1000:.0f} kB of connections and {spent:.0f} ms of the browser's main thread")


def picture_of_many():
    page.theme("light")
    page.all("#matrix-mode option[value=packets]")[0].click()
    page.picture("many-packets-light", 1600, 1380)
    page.all("#matrix-mode option[value=state]")[0].click()
    page.picture("many-light", 1600, 1380)
    page.driver.set_window_size(1600, 1000)
    # The matrix as a whole fits beside the events.
    width = page.js("const m = document.getElementById('matrix'); return [m.scrollWidth, m.parentElement.clientWidth]")
    if width[0] > width[1]:
        raise AssertionError(f"the matrix is {width[0]} wide, its place {width[1]}")


def by_proxy():
    authority, bob = folder / "ca", folder / "bob"
    for words in (("init",), ("issue", "--role", "viewer", "--name", "bob", "--out", bob)):
        run(*map(str, (MANAGER, *words, "--dir", authority)))
    secure = Manager(folder, 7782)
    secure.options = ["--tls", authority / "manager"]
    command = [MANAGER.with_name("superp"), "fabric", "proxy", "--listen", "127.0.0.1:8001"]
    command += ["--manager", "https://127.0.0.1:7783,https://127.0.0.1:7782", "--tls", bob]
    proxy = subprocess.Popen(command, stdout=secure.log)
    try:
        # From here on it is asked as the browser asks it.
        secure.url = "http://127.0.0.1:8001"
        secure.up()
        page.open(secure.url)
        page.shows("#fabric", "No fabric yet")
        page.shows("#phase", "empty")
        page.shows("#events-state", "live")
        page.open("about:blank")
    finally:
        proxy.kill()
        proxy.wait()
        secure.kill()


def console():
    same(page.complaints(), [], "console")


def note(text):
    print(f"# {text}", flush=True)


os.unshare(os.CLONE_NEWNET)
run("ip", "link", "set", "lo", "up")
PICTURES.mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
    folder = pathlib.Path(scratch)
    agents, manager = Agents("127.16.0", HOSTILE), Manager(folder, 7778)
    big, large = Agents("127.17.0", "1.0.0"), Manager(folder, 7780)
    results = Results()
    page = None
    try:
        manager.up()
        large.up()
        page = Page(folder)
        for name, case in (
            ("without a fabric the page says so", empty),
            ("a fabric boots, and the page shows how far and what is waited for", boots),
            ("the matrix has a cell for each connection, and none for others", cells),
            ("of several connections of two nodes one is chosen", two_of_a_pair),
            ("nodes with state, ports, address and version; a port goes down", nodes),
            ("rates of packets, data and retransmits", rates),
            ("a connection opens by click, by address and by keys", drill_down),
            ("a connection breaks: its event and its next life appear", breaks),
            ("a connection that stays down is marked in both directions", stays_down),
            ("text of agents is text", markup),
            ("events can be paused and filtered", pause_and_filter),
            ("the manager is killed, and another goes on", manager_ends),
            ("light and dark, with contrast for reading", themes),
            ("64 nodes boot", sixty_four),
            ("64 nodes: only what has changed is written", sixty_four_change),
            ("64 nodes fit", picture_of_many),
            ("the page of a manager with TLS, by superp fabric proxy", by_proxy),
            ("nothing on the console, no violation of the policy", console),
        ):
            results.case(name, case)
    finally:
        if page:
            page.driver.quit()
        manager.kill()
        large.kill()
results.end()
