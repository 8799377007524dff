// command/exporter/page_gpus.js - the GPUs of the page: their memory, divided by session, and the last hour, from /history.json.
"use strict";

const HISTORY_MS = 10000;
// Of sessions in the bars of memory: classes of page.css
const COLOURS = 8;
// Sessions that the legend of a bar names
const NAMED = 4;
// Points of the history
const HOUR = 360;

function colourOf(session) {
	return `colour-${(Number(session.session.slice(1)) || 0) % COLOURS}`;
}

function bar(parts) {
	const box = element("div", undefined, "bar");
	for (const [part, className, title] of parts) {
		const inside = element("div", undefined, className);
		inside.style.width = `${Math.min(Math.max(part || 0, 0), 1) * 100}%`;
		inside.title = title || "";
		box.append(inside);
	}
	return box;
}

function label(name, text) {
	const line = element("div", undefined, "label");
	line.append(element("span", name), element("span", text));
	return line;
}

// The sessions on a GPU with their memory there, the largest first.
function usersOf(gpu, report) {
	return report.sessions.map((s) => [s, (s.gpus || []).find((g) => g.index === gpu.index)])
		.filter(([, use]) => use).map(([s, use]) => [s, use.memory]).sort((a, b) => b[1] - a[1]);
}

function memoryParts(gpu, users) {
	const own = users.reduce((sum, [, memory]) => sum + memory, 0);
	const parts = users.map(([s, memory]) => [memory / gpu.memory, `part ${colourOf(s)}`, `${s.session} ${s.program}: ${bytes(memory)}`]);
	return [...parts, [(gpu.used - own) / gpu.memory, "part rest", `others: ${bytes(Math.max(gpu.used - own, 0))}`]];
}

function legendOf(gpu, users) {
	const list = element("ul", undefined, "legend"), all = element("button", `${users.length} session${users.length === 1 ? "" : "s"}`);
	for (const [s, memory] of users.slice(0, NAMED)) {
		const item = element("li");
		item.append(element("span", undefined, `swatch ${colourOf(s)}`), `${s.program} ${bytes(memory)}`);
		list.append(item);
	}
	all.type = "button";
	all.setAttribute("aria-label", `show the sessions on GPU ${gpu.index}`);
	all.addEventListener("click", () => {
		byId("filter").value = `GPU ${gpu.index}`;
		showSessions(last);
		byId("filter").focus();
	});
	if (users.length) {
		const item = element("li");
		item.append(all);
		list.append(item);
	}
	return list;
}

function cardOf(gpu) {
	const card = element("div", undefined, "gpu");
	card.id = `gpu-${gpu.index}`;
	card.append(element("h3"), element("div"), element("ul"), element("div"));
	byId("gpus").append(card);
	return card;
}

function showGpus(report) {
	const list = report.gpus || [];
	if (!list.length) {
		byId("gpus").replaceChildren(element("p", "The driver of this host does not report GPUs.", "quiet"));
		return;
	}
	for (const gpu of list) {
		const card = byId(`gpu-${gpu.index}`) || cardOf(gpu), users = usersOf(gpu, report);
		const lines = [label("Memory", `${bytes(gpu.used)} of ${bytes(gpu.memory)}`), bar(memoryParts(gpu, users))];
		if (gpu.utilization !== undefined)
			lines.push(label("Utilisation", percent(gpu.utilization)), bar([[gpu.utilization, "part second"]]));
		card.children[0].textContent = `${gpu.index}: ${gpu.name}`;
		card.children[1].replaceChildren(...lines);
		if (!card.children[2].contains(document.activeElement))
			card.children[2].replaceWith(legendOf(gpu, users));
	}
}

// --- the last hour

function svg(name, attributes) {
	const made = document.createElementNS("http://www.w3.org/2000/svg", name);
	for (const [key, value] of Object.entries(attributes))
		made.setAttribute(key, value);
	return made;
}

// A line through the values from 0 to 1; a gap where there is none.
function path(values, className) {
	let d = "", pen = "M";
	values.forEach((value, i) => {
		if (value === null || value === undefined) {
			pen = "M";
			return;
		}
		d += `${pen}${i + HOUR - values.length} ${((1 - Math.min(value, 1)) * 60).toFixed(1)}`;
		pen = "L";
	});
	return svg("path", { d, class: className });
}

function keyOf(name, className) {
	const key = element("span");
	key.append(element("span", undefined, `swatch ${className}`), name);
	return key;
}

function draw(gpu, history) {
	const of = (field) => history.points.map((p) => p && p.gpus[gpu.index] ? p.gpus[gpu.index][field] : null);
	const used = of("used").map((value) => value === null ? null : value / gpu.memory), busy = of("utilization");
	const hasBusy = busy.some((value) => value !== null && value !== undefined);
	const chart = svg("svg", { viewBox: "0 -1 360 62", preserveAspectRatio: "none", role: "img",
		"aria-label": `memory${hasBusy ? " and utilisation" : ""} of GPU ${gpu.index} over the last hour` });
	const box = element("div", undefined, "chart"), keys = element("div", undefined, "keys quiet");
	chart.append(svg("path", { d: "M0 0H360M0 30H360M0 60H360", class: "grid" }), path(used, "first"));
	keys.append(keyOf("memory", "first"));
	if (hasBusy) {
		chart.append(path(busy, "second"));
		keys.append(keyOf("utilisation", "second"));
	}
	box.append(element("span", "100 %", "top"), element("span", "50 %", "middle"), element("span", "0", "bottom"), chart,
		element("span", "1 h ago", "from"), element("span", "now", "to"));
	byId(`gpu-${gpu.index}`).children[3].replaceChildren(keys, box);
}

async function remember() {
	try {
		const history = await (await fetch("history.json")).json();
		for (const gpu of (last && last.gpus) || [])
			draw(gpu, history);
	} catch {
		// poll() reports the error
	}
	setTimeout(remember, last ? HISTORY_MS : EVERY_MS);
}
