"""The style and the script of a report's page: all that it has beside its own text."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #1c2024; --soft: #60646c; --line: #d9dde3;
--panel: #f6f7f9; --keeps: #3e6fa8; --goes: #d9480f; --live: #2b8a3e; --good: #2b8a3e;
--bad: #c92a2a; --warn: #b35c00; --link: #0b62c4; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --text: #e6e8eb; --soft: #9ba1a8;
--line: #33383e; --panel: #1d2125; --keeps: #6ea1dc; --goes: #ff8a5b; --live: #69c37d;
--good: #69c37d; --bad: #ff8787; --warn: #ffb454; --link: #7ab7ff; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; background: var(--page); color: var(--text);
max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.15rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.1rem;
margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; } a { color: var(--link); }
code, .code { font-family: ui-monospace, monospace; font-size: .86em; overflow-wrap: anywhere; }
.soft { color: var(--soft); } .place { margin: .1rem 0 0; overflow-wrap: anywhere; }
.headline { font-size: 1.7rem; font-weight: 650; line-height: 1.25; margin: 1.4rem 0 .3rem; }
.share { display: block; width: 100%; height: 1.1rem; margin: .9rem 0 .3rem; border-radius: .3rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1rem 0; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .9rem; flex: 0 1 auto;
max-width: 22rem; }
.tile b { display: block; font-size: 1.2rem; }
.verdict, .caution, .finding { border-left: .3rem solid var(--good); background: var(--panel);
padding: .6rem 1rem; margin: .8rem 0; border-radius: 0 .4rem .4rem 0; overflow-wrap: anywhere; }
.verdict ul { margin: .3rem 0; padding-left: 1.2rem; } .finding p { margin: .2rem 0; }
.refused { border-color: var(--bad); } .caution, .noticed { border-color: var(--warn); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr));
gap: 1rem; align-items: start; }
figure { margin: 0; border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1rem;
min-width: 0; }
figcaption { font-weight: 600; margin-bottom: .6rem; }
.bar { margin: .55rem 0; } .bar p { display: flex; gap: .2rem 1rem; margin: 0;
justify-content: space-between; align-items: baseline; flex-wrap: wrap; }
.bar span { min-width: 0; overflow-wrap: anywhere; }
.bar .n { color: var(--soft); white-space: nowrap; margin-left: auto; font-size: .92em; }
.bar svg { display: block; width: 100%; height: .5rem; margin-top: .15rem; border-radius: .25rem; }
.track { fill: var(--line); } .keeps { fill: var(--keeps); } .goes { fill: var(--goes); }
.trend { display: grid; grid-template-columns: auto 1fr; gap: 0 .6rem; }
.trend .y { display: flex; flex-direction: column; justify-content: space-between;
text-align: right; }
.trend .x { grid-column: 2; display: flex; justify-content: space-between; margin-top: .4rem; }
.trend svg { width: 100%; height: 12rem; overflow: visible; } .trend path { fill: none;
stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.trend .dot { stroke-width: 7; stroke-linecap: round; }
.trend .grid { stroke: var(--line); stroke-width: 1; }
.trend .y, .trend .x { font-size: .85em; color: var(--soft); }
.trend .area { fill: var(--goes); fill-opacity: .13; stroke: none; }
.trend .days span { width: 2.4rem; margin: 0 -1.2rem; text-align: center; }
.trend .days span:first-child { margin-left: 0; text-align: left; width: 1.2rem; }
.trend .days span:last-child { margin-right: 0; text-align: right; width: 1.2rem; }
.listed { stroke: var(--soft); } .live { stroke: var(--live); } .garbage { stroke: var(--goes); }
.reclaimed { stroke: var(--keeps); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: 0 0 .7rem; padding: 0;
list-style: none; }
.legend svg { width: 1.2rem; height: .6rem; margin-right: .35rem; } .legend path { stroke-width: 3;
}
details { margin: .6rem 0; } summary { cursor: pointer; } summary h2 { display: inline; }
.scroll { overflow-x: auto; position: relative; }
.named .scroll { max-height: 40rem; overflow-y: auto;
border: 1px solid var(--line); border-radius: .5rem; padding: 0 1rem; }
.named th { position: sticky; top: 0; background: var(--page); }
.named td:first-child { min-width: 18rem; } .named td:nth-child(4) { min-width: 16rem; }
figure + .charts { margin-top: 1rem; } .fleet .scroll { max-height: none; }
.fleet th, .fleet th.n { white-space: normal; vertical-align: bottom; overflow-wrap: normal; }
.fleet th button { text-align: inherit; }
.fleet td:first-child { min-width: 9rem; }
.fleet td:nth-child(n+2) { white-space: nowrap; min-width: 0; } .state::before { content: "";
display: inline-block; width: .6rem; height: .6rem; border-radius: 50%; margin-right: .4rem;
background: var(--soft); } .state.good::before { background: var(--good); }
.state.warn::before { background: var(--warn); } .state.bad::before { background: var(--bad); }
.spark { width: 7rem; height: 1.3rem; display: block; } .spark path { fill: none; stroke-width: 2;
vector-effect: non-scaling-stroke; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top;
padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
th { font-weight: 600; white-space: nowrap; } .key { min-width: 9rem; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0;
padding: 0; cursor: pointer; }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
.tools { display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; margin: .4rem 0; }
.tools[hidden] { display: none; }
.tools input, .tools button { font: inherit; color: inherit; background: var(--panel);
border: 1px solid var(--line); border-radius: .35rem; padding: .3rem .7rem; min-width: 0; }
.tools input { flex: 1 1 12rem; max-width: 24rem; } .tools button { cursor: pointer; }
@media (max-width: 40rem) {
.headline { font-size: 1.35rem; }
.named thead { position: absolute; clip-path: inset(50%); width: 1px; overflow: hidden; }
.named tr, .named td { display: block; } .named tr { border-bottom: 1px solid var(--line);
padding: .5rem 0; } .named td { border: 0; padding: .05rem 0; min-width: 0 !important; }
.fleet td.state::before { content: attr(data-name) " "; display: inline; width: auto; height: auto;
border-radius: 0; margin: 0; background: none; } .fleet td.bad { color: var(--bad); }
.fleet td.warn { color: var(--warn); }
.spark { display: inline; vertical-align: middle; }
.named td:empty { display: none; }
.named tr[hidden] { display: none; }
.named td.n { text-align: left; } .named td::before { content: attr(data-name) " ";
color: var(--soft); font-family: system-ui, sans-serif; } .named td:first-child::before {
content: ""; } .checks td:nth-child(n+4), .checks th:nth-child(n+4) { display: none; }
}
@media print { .tools { display: none; } }
"""

# A cell that a spreadsheet would take for a formula gets an apostrophe before it.
SCRIPT = """
"use strict";
for (const place of document.querySelectorAll(".named")) {
  const tools = place.querySelector(".tools"), body = place.querySelector("tbody");
  const heads = [...place.querySelectorAll("th")], rows = [...body.rows];
  const search = tools.querySelector("input"), count = tools.querySelector("output");
  const value = (row, at) => row.cells[at].dataset.v ?? row.cells[at].textContent;
  const shown = () => [...body.rows].filter((row) => !row.hidden);
  const tell = () => { count.textContent = `${shown().length} of ${rows.length}`; };
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    tell();
  });
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const isNumber = head.classList.contains("n");
      const compare = (a, b) => isNumber
        ? value(a, at) - value(b, at) : value(a, at).localeCompare(value(b, at));
      body.append(...[...rows].sort((a, b) => (down ? compare(b, a) : compare(a, b))));
    });
  });
  tools.querySelector("button").addEventListener("click", () => {
    const plain = (text) => (/^[=+\\-@]/.test(text) ? `'${text}` : text);
    const quoted = (text) => `"${plain(text).replaceAll('"', '""')}"`;
    const lines = [heads.map((head) => quoted(head.textContent))];
    for (const row of shown()) lines.push(heads.map((_, at) => quoted(value(row, at))));
    const text = lines.map((line) => line.join(",") + "\\r\\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = place.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });
  tools.hidden = false;
  tell();
}
"""

# The page's own script is the only one that a browser runs: it is named by its digest. Nothing is
# fetched, sent or framed.
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; "
    f"script-src 'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}'"
)
