// The live view of a run: polls its figures every second until it ends.
"use strict";
const section = document.getElementById("live");
const $ = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString("en");
const tenths = (n) => n.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const plural = (n, one) => `${number(n)} ${one}${n === 1 ? "" : "s"}`;
const SHOWN = 120; // seconds
let rates = []; // pairs of the second and the rate
function line(name, perSecond, counts) {
  const row = document.createElement("tr");
  for (const text of [name, number(Math.round(perSecond)), ...counts.map(number)]) row.insertCell().textContent = text;
  for (const [at, tone] of [[1, ""], [2, "ok"], [3, "fail"], [4, "info"]]) row.cells[at].className = `number ${counts[at - 2] ? tone : "dim"}`;
  row.cells[1].className = "number";
  return row;
}
function draw(second, perSecond) {
  rates = [...rates.filter(([at]) => at > second - SHOWN && at < second), [second, perSecond]];
  const most = Math.max(...rates.map(([, rate]) => rate), 1), [begin] = rates[0];
  const points = rates.map(([at, rate]) => `${(at - begin) * SHOWN / Math.max(second - begin, 30)},${58 - 56 * rate / most}`);
  document.querySelector("#rates polyline").setAttribute("points", points.join(" "));
  return most;
}
function show(now) {
  const limit = Number(section.dataset.limit) || 0;
  $("progress").value = Math.min(now.time_s, limit);
  const left = limit - now.time_s;
  const until = now.behind ? "the page is catching up with the run" : left > 0 ? `faults for ${number(Math.ceil(left))} s more` : "healing, final reads";
  $("clock").textContent = now.time_s ? `${tenths(now.time_s)}${limit ? ` of ${number(limit)}` : ""} s; ${until}; last operation: ${now.last}` : "waiting for the first operation";
  const kinds = ["ok", "fail", "info"], rows = new Map();
  for (const [f, kind, count] of now.ended) rows.set(f, { ...rows.get(f), [kind]: count });
  $("ended").replaceChildren(...[...rows].map(([f, of]) => line(f, now.per_s_by_f[f] ?? 0, kinds.map((kind) => of[kind] ?? 0))));
  const total = (kind) => [...rows.values()].reduce((sum, of) => sum + (of[kind] ?? 0), 0);
  $("total").replaceChildren(line("all", now.per_s, kinds.map(total)));
  $("rate").textContent = `${plural(Math.round(now.per_s), "call")} a second over the last five seconds, ${number(now.in_flight)} in flight; the curve shows the last two minutes, at most ${number(Math.round(draw(now.time_s, now.per_s)))} a second`;
  $("faults").replaceChildren(...(now.faults.length ? now.faults : ["none"]).map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  $("injected").textContent = `${plural(now.injected, "fault")} so far`;
  const anomalies = [];
  if (now.stale_reads) anomalies.push(`${plural(now.stale_reads, "read")} without ${plural(now.missed, "acknowledged value")}`);
  if (now.duplicated) anomalies.push(`${plural(now.duplicated, "value")} twice in a read`);
  $("anomalies").textContent = now.broken || anomalies.join("; ") + (anomalies.length && now.first_s !== null ? `; first at ${now.first_s.toFixed(3)} s` : "") || "none";
  $("anomalies").className = anomalies.length || now.broken ? "anomalous" : "";
}
async function poll() {
  let behind = false;
  try {
    const now = await (await fetch(section.dataset.figures)).json();
    show(now);
    behind = now.behind;
    if (!now.alive) { location.replace(section.dataset.figures.replace(/\/figures$/, "")); return; }
  } catch {
    $("clock").textContent = "the server does not answer";
  }
  setTimeout(poll, behind ? 0 : 1000);
}
poll();
