// command/exporter/page.js - shows /status.json, again and again, and /history.json. All text goes into text nodes:
// programs and hosts call themselves what they like.
"use strict";

const EVERY_MS = 2000;
const HISTORY_MS = 10000;
const COLUMNS = [
	["Session", (s) => s.session],
	["Identity", (s) => s.identity],
	["State", (s) => s.state],
	["GPU", (s) => gpusOf(s)],
	["Share", (s) => shareOf(s), true],
	["Memory", (s) => bytes(s.memory + s.host_memory), true],
	["Calls/s", (s, last, seconds) => rate(s, last, seconds, ["calls", "commands"], number), true],
	["Data/s", (s, last, seconds) => rate(s, last, seconds, ["received", "sent"], bytes), true],
	["Age", (s) => time(s.age), true],
	["Program", (s) => `${s.program} (${s.host}:${s.client_pid})`],
];

const QUEUE = [
	["Place", (w) => w.place, true],
	["Identity", (w) => w.identity],
	["Waits", (w) => time(w.age), true],
	["Program", (w) => `${w.program} (${w.host}:${w.client_pid})`],
];

let last = null, hasLog = true;

function element(name, text, className) {
	const made = document.createElement(name);
	if (text !== undefined)
		made.textContent = text;
	if (className)
		made.className = className;
	return made;
}

function number(value) {
	return value >= 1e6 ? `${(value / 1e6).toFixed(1)} M` : value >= 1e4 ? `${(value / 1e3).toFixed(1)} k` : value.toFixed(0);
}

function bytes(value) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let i = 0;
	for (; value >= 1024 && i < units.length - 1; i++)
		value /= 1024;
	return `${value.toFixed(i && value < 100 ? 1 : 0)} ${units[i]}`;
}

function time(seconds) {
	const s = Math.floor(seconds), two = (n) => String(n).padStart(2, "0");
	if (s >= 86400)
		return `${Math.floor(s / 86400)}d${two(Math.floor(s % 86400 / 3600))}h`;
	if (s >= 3600)
		return `${Math.floor(s / 3600)}h${two(Math.floor(s % 3600 / 60))}m`;
	return s >= 60 ? `${Math.floor(s / 60)}m${two(s % 60)}s` : `${s}s`;
}

function percent(part) {
	return part === undefined || part === null ? "–" : `${Math.round(part * 100)} %`;
}

function gpusOf(session) {
	return session.gpus && session.gpus.length ? session.gpus.map((g) => g.index).join(",") : "–";
}

function shareOf(session) {
	const shares = (session.gpus || []).map((g) => g.share).filter((share) => share !== undefined);
	return shares.length ? percent(shares.reduce((a, b) => a + b)) : "–";
}

function rate(now, before, seconds, fields, format) {
	const sum = (object) => fields.reduce((total, field) => total + object[field], 0);
	if (!before || seconds <= 0)
		return "–";
	return format(Math.max(sum(now) - sum(before), 0) / seconds);
}

function rowOf(columns, ...values) {
	const row = element("tr");
	for (const [label, value, numeric] of columns) {
		const cell = element("td", value(...values), numeric ? "number" : "");
		cell.dataset.label = label;
		row.append(cell);
	}
	return row;
}

// Users see their own clients, and how many there are.
function showQueue(report) {
	const waiting = report.waiting || [], others = (report.waiting_count || 0) - waiting.length;
	const more = document.getElementById("queue-more");
	document.getElementById("queue").replaceChildren(...waiting.map((w) => rowOf(QUEUE, w)));
	document.getElementById("queue-box").hidden = waiting.length + others === 0;
	more.hidden = others <= 0;
	more.textContent = `${others} of other users`;
}

function showSessions(report) {
	const rows = report.sessions.map((s) => rowOf(COLUMNS, s, last && last.sessions.find((b) => b.session === s.session),
		last ? report.time - last.time : 0));
	document.getElementById("sessions").replaceChildren(...rows);
	document.getElementById("none").hidden = rows.length > 0;
}

function bar(label, text, part, className) {
	const line = element("div", undefined, "label"), box = element("div", undefined, `bar ${className}`), inside = element("div");
	line.append(element("span", label), element("span", text));
	inside.style.width = `${Math.min(Math.max(part || 0, 0), 1) * 100}%`;
	box.append(inside);
	return [line, box];
}

function showGpus(report) {
	const list = report.gpus || [], box = document.getElementById("gpus");
	if (!list.length) {
		box.replaceChildren(element("p", "The driver of this host does not report GPUs.", "quiet"));
		return;
	}
	for (const gpu of list) {
		let card = document.getElementById(`gpu-${gpu.index}`);
		if (!card) {
			card = element("div", undefined, "gpu");
			card.id = `gpu-${gpu.index}`;
			card.append(element("h3"), element("div"), element("div"));
			box.append(card);
		}
		card.children[0].textContent = `${gpu.index}: ${gpu.name}`;
		card.children[1].replaceChildren(
			...bar("Memory", `${bytes(gpu.used)} of ${bytes(gpu.memory)}`, gpu.used / gpu.memory, ""),
			...bar("Utilisation", percent(gpu.utilization), gpu.utilization, "second"));
	}
}

function showNumbers(report) {
	const rates = last && last.totals && report.totals;
	const seconds = last ? report.time - last.time : 0;
	const refused = report.totals ? Object.values(report.totals.refused).reduce((a, b) => a + b, 0) : 0;
	const rows = [
		["Sessions", `${report.session_count} of ${report.max_sessions}`],
		["Suspended", String(report.sessions.filter((s) => s.state === "suspended").length)],
		["Calls/s", rates ? rate(report.totals, last.totals, seconds, ["calls", "commands"], number) : "–"],
		["Data/s", rates ? rate(report.totals, last.totals, seconds, ["received", "sent"], bytes) : "–"],
		["Spare workers ready", String(report.spares ? report.spares.ready : 0)],
		["Waiting", String(report.waiting_count || 0)],
		["Refused", report.totals ? number(refused) : "–"],
	].map(([name, value]) => {
		const box = element("div");
		box.append(element("dt", name), element("dd", value));
		return box;
	});
	document.getElementById("numbers").replaceChildren(...rows);
	document.getElementById("server").textContent =
		`server ${report.release}, pid ${report.pid}, driver ${report.driver}` + (report.all ? "" : "; your sessions");
}

function problem(text) {
	const box = document.getElementById("problem");
	box.textContent = text || "";
	box.hidden = !text;
}

async function poll() {
	try {
		const reply = await fetch("status.json"), report = await reply.json();
		if (!reply.ok)
			throw new Error(report.error);
		showNumbers(report);
		showGpus(report);
		showSessions(report);
		showQueue(report);
		problem("");
		last = report;
	} catch (error) {
		problem(`No data: ${error.message}. Trying again.`);
		last = null;
	}
	setTimeout(poll, EVERY_MS);
}

// A line through the values from 0 to 1; a gap where there is none.
function path(values, width, height, className) {
	const made = document.createElementNS("http://www.w3.org/2000/svg", "path");
	let d = "", pen = "M";
	values.forEach((value, i) => {
		if (value === null || value === undefined) {
			pen = "M";
			return;
		}
		d += `${pen}${(i + width - values.length).toFixed(0)} ${((1 - Math.min(value, 1)) * (height - 4) + 2).toFixed(1)}`;
		pen = "L";
	});
	made.setAttribute("d", d);
	made.setAttribute("class", className);
	return made;
}

function draw(card, gpu, history) {
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	const of = (field) => history.points.map((p) => p && p.gpus[gpu.index] ? p.gpus[gpu.index][field] : null);
	svg.setAttribute("viewBox", "0 0 360 48");
	svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("role", "img");
	svg.setAttribute("aria-label", "memory and utilisation over the last hour");
	svg.append(path(of("used").map((used) => used === null ? null : used / gpu.memory), 360, 48, "first"),
		path(of("utilization"), 360, 48, "second"));
	card.children[2].replaceChildren(svg, element("div", "the last hour", "quiet"));
}

async function remember() {
	try {
		const history = await (await fetch("history.json")).json();
		for (const gpu of (last && last.gpus) || [])
			draw(document.getElementById(`gpu-${gpu.index}`), gpu, history);
	} catch {
		// poll() reports the error
	}
	setTimeout(remember, last ? HISTORY_MS : EVERY_MS);
}

// The exporter has a log only if it was started with --log-file. The end stays in view unless the reader has scrolled away.
async function showLog() {
	try {
		const reply = await fetch("log.txt"), box = document.getElementById("log");
		const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
		hasLog = reply.status !== 404;
		document.getElementById("log-box").hidden = !reply.ok;
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

function addHead(id, columns) {
	document.getElementById(id).append(element("tr"));
	for (const [label, , numeric] of columns)
		document.getElementById(id).firstChild.append(element("th", label, numeric ? "number" : ""));
}

addHead("head", COLUMNS);
addHead("queue-head", QUEUE);
poll();
showLog();
setTimeout(remember, EVERY_MS / 4);
