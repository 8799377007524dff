// command/exporter/page.js - shows /status.json, again and again: the server, its sessions, the queue, the log. page_gpus.js shows the
// GPUs. All text goes into text nodes: programs and hosts call themselves what they like.
"use strict";

const EVERY_MS = 2000;
const SIGNS = { running: "▶", idle: "○", suspended: "‖", suspending: "▽", resuming: "△" };

// A column: key, head, value as text or as an element, value to sort by, whether it is a number.
const COLUMNS = [
	["session", "Session", (s) => withSwatch(s), (s) => Number(s.session.slice(1))],
	["program", "Program", (s) => s.program, (s) => s.program],
	["state", "State", (s) => stateOf(s.state), (s) => s.state],
	["gpus", "GPU", (s) => gpusOf(s), (s) => gpusOf(s)],
	["share", "Share", (s) => percent(shareOf(s)), (s) => shareOf(s) || 0, true],
	["memory", "Memory", (s) => bytes(memoryOf(s)), memoryOf, true],
	["calls", "Calls/s", (s) => known(s.callRate, number), (s) => s.callRate || 0, true],
	["data", "Data/s", (s) => known(s.dataRate, bytes), (s) => s.dataRate || 0, true],
	["time", "Age", (s) => time(s.age), (s) => s.age, true],
	["identity", "Identity", (s) => s.identity, (s) => s.identity],
	["client", "Client", (s) => `${s.host}:${s.client_pid}`, (s) => s.host],
];

const QUEUE = [
	["place", "Place", (w) => String(w.place)],
	["program", "Program", (w) => w.program],
	["time", "Waits", (w) => time(w.age), null, true],
	["identity", "Identity", (w) => w.identity],
	["client", "Client", (w) => `${w.host}:${w.client_pid}`],
];

let last = null, seen = 0, hasLog = true;
// The column, and whether its largest is first; null: as the server has them
let sorted = null, down = false;

const byId = (id) => document.getElementById(id);

function element(name, text, className) {
	const made = document.createElement(name);
	if (text !== undefined)
		made.textContent = text;
	if (className)
		made.className = className;
	return made;
}

// --- quantities, in the forms of `cricket top`

function number(value) {
	return value >= 999950 ? `${(value / 1e6).toFixed(1)} M` : value >= 9999.5 ? `${(value / 1e3).toFixed(1)} k` : value.toFixed(0);
}

function bytes(value) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let i = 0;
	for (; value >= 1023.5 && i < units.length - 1; i++)
		value /= 1024;
	return `${value.toFixed(i && value < 99.95 ? 1 : 0)} ${units[i]}`;
}

function time(seconds) {
	const s = Math.floor(seconds), two = (n) => String(n).padStart(2, "0");
	if (s >= 86400)
		return `${Math.floor(s / 86400)}d${two(Math.floor(s % 86400 / 3600))}h`;
	if (s >= 3600)
		return `${Math.floor(s / 3600)}h${two(Math.floor(s % 3600 / 60))}m`;
	return s >= 60 ? `${Math.floor(s / 60)}m${two(s % 60)}s` : `${s}s`;
}

function known(value, format) {
	return value === undefined || value === null ? "–" : format(value);
}

function percent(part) {
	return known(part, (p) => `${Math.round(p * 100)} %`);
}

// The sum of FIELDS a second, since the report before; undefined: not known.
function rate(now, before, seconds, fields) {
	const sum = (object) => fields.reduce((total, field) => total + object[field], 0);
	return before && seconds > 0 ? Math.max(sum(now) - sum(before), 0) / seconds : undefined;
}

// --- sessions

function memoryOf(session) {
	return session.memory + session.host_memory;
}

function gpusOf(session) {
	return session.gpus && session.gpus.length ? session.gpus.map((g) => g.index).join(",") : "–";
}

function shareOf(session) {
	const shares = (session.gpus || []).map((g) => g.share).filter((share) => share !== undefined);
	return shares.length ? shares.reduce((a, b) => a + b) : undefined;
}

function stateOf(state) {
	const box = element("span", undefined, `state ${state}`), sign = element("span", SIGNS[state] || "?");
	sign.setAttribute("aria-hidden", "true");
	box.append(sign, ` ${state}`);
	return box;
}

function withSwatch(session) {
	const box = element("span");
	box.append(element("span", undefined, `swatch ${colourOf(session)}`), session.session);
	return box;
}

function matches(session, words) {
	const gpu = /^gpu (\d+)$/.exec(words);
	if (gpu)
		return (session.gpus || []).some((g) => g.index === Number(gpu[1]));
	return [session.session, session.program, session.state, session.identity, `${session.host}:${session.client_pid}`]
		.some((text) => text.toLowerCase().includes(words));
}

function fill(row, columns, value) {
	columns.forEach(([, , text], i) => {
		const now = text(value), cell = row.children[i].firstChild;
		if (now instanceof Node ? now.textContent !== cell.textContent : now !== cell.textContent)
			cell.replaceChildren(now);
	});
}

function rowOf(columns) {
	const row = element("tr");
	for (const [key, label, , , numeric] of columns) {
		const cell = element("td", undefined, numeric ? `${key} number` : key);
		cell.dataset.label = label;
		cell.append(element("span"));
		row.append(cell);
	}
	return row;
}

// On a narrow screen, a button shows the rest of a session.
function addMore(row, session) {
	const more = element("button", "more", "more");
	more.type = "button";
	more.setAttribute("aria-expanded", "false");
	more.setAttribute("aria-label", `more about ${session}`);
	more.addEventListener("click", () => {
		const open = row.classList.toggle("open");
		more.setAttribute("aria-expanded", String(open));
	});
	row.children[1].append(more);
}

// Rows stay those of their sessions, with their focus and open parts.
function showSessions(report) {
	const body = byId("sessions"), words = byId("filter").value.trim().toLowerCase();
	const old = new Map([...body.children].map((row) => [row.dataset.session, row]));
	const list = report.sessions.filter((s) => matches(s, words));
	if (sorted) {
		const value = sorted[3];
		list.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1));
	}
	const rows = list.map((s) => {
		let row = old.get(s.session);
		if (!row) {
			row = rowOf(COLUMNS);
			row.dataset.session = s.session;
			addMore(row, s.session);
		}
		fill(row, COLUMNS, s);
		return row;
	});
	if (rows.length !== body.children.length || rows.some((row, i) => row !== body.children[i]))
		body.replaceChildren(...rows);
	byId("table").hidden = rows.length === 0;
	byId("tools").hidden = report.sessions.length === 0;
	showNone(report, rows.length);
}

function showNone(report, shown) {
	const box = byId("none");
	box.hidden = shown > 0;
	if (report.sessions.length)
		box.replaceChildren("No session contains the text of the filter.");
	else
		box.replaceChildren(report.all ? "No sessions. " : "You have no sessions. ", "To run a program on these GPUs: ",
			element("code", `cricket run -s ${report.host} -- python3 train.py`));
}

// Users see their own clients, and how many there are.
function showQueue(report) {
	const waiting = report.waiting || [], others = (report.waiting_count || 0) - waiting.length;
	byId("queue").replaceChildren(...waiting.map((w) => {
		const row = rowOf(QUEUE);
		fill(row, QUEUE, w);
		return row;
	}));
	byId("queue-box").hidden = waiting.length + others === 0;
	byId("queue-more").hidden = others <= 0;
	byId("queue-more").textContent = `${others} of other users`;
}

// --- the server

function card(name, value, className, part) {
	const box = element("div", undefined, `card ${className}`);
	box.append(element("div", name, "quiet"), element("div", value, "value"));
	if (part !== undefined)
		box.append(bar([[part, "part first"]]));
	return box;
}

function showServer(report) {
	const waiting = report.waiting_count || 0, suspended = report.sessions.filter((s) => s.state === "suspended" || s.state === "parked").length;
	const seconds = last ? report.time - last.time : 0, before = last && last.totals, t = report.totals;
	const cards = [
		card("Sessions", `${report.session_count} of ${report.max_sessions}`, report.session_count >= report.max_sessions ? "full" : "",
			report.session_count / report.max_sessions),
		card("Waiting", String(waiting), waiting ? "warn" : ""),
		card("Suspended", String(suspended), ""),
	];
	if (t && before) {
		cards.push(card("Calls/s", known(rate(t, before, seconds, ["calls", "commands"]), number), "small"),
			card("Data/s", known(rate(t, before, seconds, ["received", "sent"]), bytes), "small"));
	}
	byId("cards").replaceChildren(...cards);
	byId("since").textContent = t ? sinceStart(report) : "";
	byId("host").textContent = report.host;
	byId("server").textContent = `cricket-rpc-server ${report.release}, pid ${report.pid}, driver ${report.driver}`;
	byId("sessions-title").textContent = report.all ? "Sessions" : "Your sessions";
	document.title = `${report.host}: ${report.session_count}/${report.max_sessions}` + (waiting ? `, ${waiting} waiting` : "");
}

function sinceStart(report) {
	const reasons = Object.entries(report.totals.refused).filter(([, count]) => count > 0);
	const refused = reasons.length ? `refused: ${reasons.map(([why, count]) => `${number(count)} (${why})`).join(", ")}` : "none refused";
	return `Since the server's start: ${number(report.totals.sessions)} sessions, ${refused}.`;
}

function problem(text) {
	byId("problem").textContent = text || "";
	byId("problem").hidden = !text;
}

function showAge() {
	const seconds = seen ? (Date.now() - seen) / 1000 : 0;
	byId("age").textContent = seen ? `data: ${time(seconds).replace(/s$/, " s")} ago` : "";
	byId("age").classList.toggle("old", seconds * 1000 > 3 * EVERY_MS);
}

function addRates(report) {
	const seconds = last ? report.time - last.time : 0;
	for (const s of report.sessions) {
		const before = last && last.sessions.find((b) => b.session === s.session);
		s.callRate = rate(s, before, seconds, ["calls", "commands"]);
		s.dataRate = rate(s, before, seconds, ["received", "sent"]);
	}
}

async function poll() {
	try {
		const reply = await fetch("status.json"), report = await reply.json();
		if (!reply.ok)
			throw new Error(report.error);
		report.host = report.host || location.hostname;
		addRates(report);
		byId("data").hidden = false;
		showServer(report);
		showGpus(report);
		showSessions(report);
		showQueue(report);
		problem("");
		last = report;
		seen = Date.now();
	} catch (error) {
		problem(`No data${seen ? ` since ${new Date(seen).toLocaleTimeString()}` : ""}: ${error.message}. Trying again.`);
		document.title = `${byId("host").textContent}: no data`;
	}
	showAge();
	setTimeout(poll, EVERY_MS);
}

// --- sorting

// A second click on the same column turns the order around.
function sortBy(column) {
	down = sorted === column ? !down : Boolean(column && column[4]);
	sorted = column;
	for (const head of byId("head").querySelectorAll("th")) {
		const own = column && head.dataset.key === column[0];
		head.setAttribute("aria-sort", !own ? "none" : down ? "descending" : "ascending");
	}
	byId("sort").value = column ? column[0] : "";
	if (last)
		showSessions(last);
}

function addHead(id, columns, sortable) {
	const row = element("tr");
	byId(id).append(row);
	for (const column of columns) {
		const head = element("th", sortable ? undefined : column[1], column[4] ? "number" : "");
		head.scope = "col";
		if (sortable) {
			const button = element("button", column[1]);
			button.type = "button";
			button.addEventListener("click", () => sortBy(column));
			head.dataset.key = column[0];
			head.setAttribute("aria-sort", "none");
			head.append(button);
		}
		row.append(head);
	}
}

function addSorting() {
	const none = element("option", "newest");
	none.value = "";
	byId("sort").append(none, ...COLUMNS.map(([key, name]) => {
		const option = element("option", name);
		option.value = key;
		return option;
	}));
	byId("sort").addEventListener("change", () => sortBy(COLUMNS.find(([key]) => key === byId("sort").value) || null));
	byId("filter").addEventListener("input", () => last && showSessions(last));
}

// The exporter has a log only if it was started with --log-file. The end stays in view unless the reader has scrolled away.
async function showLog() {
	try {
		const reply = await fetch("log.txt"), box = byId("log");
		const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
		hasLog = reply.status !== 404;
		byId("log-box").hidden = !reply.ok;
		if (reply.ok)
			box.textContent = await reply.text();
		if (reply.ok && atEnd)
			box.scrollTop = box.scrollHeight;
	} catch {
		// poll() reports the error
	}
	if (hasLog)
		setTimeout(showLog, EVERY_MS);
}

addHead("head", COLUMNS, true);
addHead("queue-head", QUEUE, false);
addSorting();
poll();
showLog();
setTimeout(remember, EVERY_MS / 4);
setInterval(showAge, 1000);
