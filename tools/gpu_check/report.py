"""The report as it grows: report.json and report.md, written again after every part and every comparison."""

import json
import os
from pathlib import Path


class Report:
    def __init__(self, folder: Path, head: dict):
        self.folder = folder
        self.data = {**head, "finished": False, "parts": []}
        folder.mkdir(parents=True, exist_ok=True)

    def part(self, name: str, title: str) -> dict:
        part = {"name": name, "title": title, "status": "running", "reason": "", "seconds": 0.0, "results": {}}
        self.data["parts"].append(part)
        self.save()
        return part

    def save(self) -> None:
        self.write("report.json", json.dumps(self.data, indent=1) + "\n")
        self.write("report.md", self.markdown())

    def write(self, name: str, text: str) -> None:
        # Whoever stops us half way finds the last whole file.
        temporary = self.folder / (name + ".new")
        temporary.write_text(text)
        os.replace(temporary, self.folder / name)

    def failed(self) -> list[str]:
        return [part["name"] for part in self.data["parts"] if part["status"] not in ("passed", "skipped")]

    def markdown(self) -> str:
        data = self.data
        lines = ["# Sardonyx on a GPU", ""]
        lines += [f"{data['started']}, {data['device']}{', a dry run' if data['dry_run'] else ''}, "
                  f"{'finished' if data['finished'] else 'not finished'}", ""]
        lines += ["| part | status | seconds | |", "|---|---|---|---|"]
        for part in data["parts"]:
            said = [part["reason"]] if part["reason"] else []
            said += part["results"].get("said", [])
            lines.append(f"| {part['title']} | {part['status']} | {part['seconds']:.0f} | {cell('; '.join(said))} |")
        for part in data["parts"]:
            lines += speed_table(part["results"].get("comparisons", []))
        return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[:1500]


def rate(side: dict | None) -> str:
    if side is None:
        return ""
    if "images_per_s" not in side:
        return cell(side.get("reason", ""))[:60]
    spread = f" ({min(side['runs']):.0f} to {max(side['runs']):.0f})" if len(side["runs"]) > 1 else ""
    return f"{side['images_per_s']:.0f}{spread}"


def speed_table(comparisons: list) -> list[str]:
    if not comparisons:
        return []
    lines = ["", "Images per second, median of alternating runs (least to most):", "",
             "| workload | batch | type | Sardonyx | eager | torch.compile | / eager | / compile | GiB planned | GiB of compile |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    gib = 1 << 30
    for c in comparisons:
        ours, torch = c["sardonyx"], c.get("torch", {})
        ratio = lambda mode: f"{c['ratios'][mode]:.2f}" if mode in c.get("ratios", {}) else ""
        planned = f"{ours['planned_bytes'] / gib:.2f}" if "planned_bytes" in ours else ""
        theirs = torch.get("compile", {}).get("memory_bytes")
        memory = f"{theirs / gib:.2f}" if theirs else ""
        lines.append(f"| {c['workload']} | {c['batch']} | {c['dtype']} | {rate(ours)} | {rate(torch.get('eager'))} | "
                     f"{rate(torch.get('compile'))} | {ratio('eager')} | {ratio('compile')} | {planned} | {memory} |")
    for c in comparisons:
        slowest = c["sardonyx"].get("slowest", [])
        if slowest:
            lines += ["", f"{c['workload']} {c['dtype']}: slowest steps, ms: " + ", ".join(
                f"{cell(op['node'])} ({op['kernel']}) {op['ms']:.3f}" for op in slowest[:6])]
    return lines
