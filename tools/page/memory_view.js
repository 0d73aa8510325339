// Memory over the step: bytes alive at each node, by kind, or where in the arena they lie.

const KIND_COLOURS = ['--forward', '--backward', '--sum', '--work'];
const MARGIN = {left: 62, right: 12, top: 16, bottom: 34};

const spanTitle = span => span.main ? plain(span.main.name)
    : span.region != null ? `threads of region ${span.region}` : 'workspace of ' + span.node.title;

class MemoryView {
  constructor(canvas, model, hooks) {
    Object.assign(this, {canvas, model, hooks, pen: canvas.getContext('2d'), places: false,
                         time: model.peak, hover: null, selected: null});
    this.most = model.doc.plan.memory.arena_bytes || 1;
    canvas.addEventListener('pointermove', event => { this.hover = this.at(event); this.redraw(); });
    canvas.addEventListener('pointerleave', () => { this.hover = null; this.redraw(); });
    canvas.addEventListener('click', event => {
      const {time, span} = this.at(event);
      this.goTo(time);
      this.hooks.select({node: span && span.node || model.nodes[time]}, 'memory');
    });
    canvas.addEventListener('keydown', event => {
      const step = event.shiftKey ? 10 : 1, last = model.nodes.length - 1;
      const to = {ArrowLeft: Math.max(0, this.time - step), p: model.peak, Enter: this.time,
                  ArrowRight: Math.min(last, this.time + step)}[event.key];
      if (to == null) return;
      event.preventDefault();
      this.goTo(to);
      if (event.key === 'Enter') this.hooks.select({node: model.nodes[to]}, 'memory');
    });
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect(), count = this.model.nodes.length;
    const part = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
    const time = Math.max(0, Math.min(count - 1, Math.floor(part * count)));
    const height = box.height - MARGIN.top - MARGIN.bottom;
    const offset = this.most * (1 - (event.clientY - box.top - MARGIN.top) / height);
    const span = this.places && this.model.spans.find(s => s.first <= time && time <= s.last &&
        s.offset <= offset && offset < s.offset + s.bytes);
    return {time, span};
  }
  goTo(time) {
    this.time = time;
    this.hooks.time(time);
    this.redraw();
  }
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const {w, h} = clearCanvas(this.canvas, this.pen), count = this.model.nodes.length;
    this.xOf = time => MARGIN.left + time * (w - MARGIN.left - MARGIN.right) / count;
    this.yOf = bytes => MARGIN.top + (h - MARGIN.top - MARGIN.bottom) * (1 - bytes / this.most);
    this.colours = readColours();
    this.pen.font = TEXT_FONT;
    this.drawAxis(w);
    if (this.places) this.drawPlaces(); else this.drawCurves(count);
    this.drawPhases();
    this.drawMarks(w);
  }
  text(text, x, y, colour, align) {
    Object.assign(this.pen, {fillStyle: this.colours[colour], textAlign: align});
    this.pen.fillText(text, x, y);
  }

  drawAxis(w) {
    const unit = 2 ** Math.floor(Math.log2(this.most / 3));
    for (let bytes = 0; bytes <= this.most; bytes += unit) {
      const y = Math.round(this.yOf(bytes));
      this.pen.fillStyle = this.colours['--line'];
      this.pen.fillRect(MARGIN.left, y, w - MARGIN.left - MARGIN.right, 1);
      this.text(formatBytes(bytes), MARGIN.left - 6, y, '--muted', 'right');
    }
  }

  drawCurves(count) {
    const {pen, xOf, yOf} = this;
    let below = new Float64Array(count);
    this.model.alive.forEach((curve, kind) => {
      const top = below.map((bytes, i) => bytes + curve[i]);
      pen.beginPath();
      for (let i = 0; i < count; ++i) {
        pen.lineTo(xOf(i), yOf(top[i]));
        pen.lineTo(xOf(i + 1), yOf(top[i]));
      }
      for (let i = count - 1; i >= 0; --i) {
        pen.lineTo(xOf(i + 1), yOf(below[i]));
        pen.lineTo(xOf(i), yOf(below[i]));
      }
      pen.fillStyle = this.colours[KIND_COLOURS[kind]];
      pen.globalAlpha = 0.75;
      pen.fill();
      below = top;
    });
    pen.globalAlpha = 1;
  }

  drawPlaces() {
    const {pen, xOf, yOf} = this;
    pen.strokeStyle = this.colours['--back'];
    pen.lineWidth = 0.75;
    for (const span of this.model.spans) {
      const x = xOf(span.first), y = yOf(span.offset + span.bytes);
      const w = Math.max(1, xOf(span.last + 1) - x), h = yOf(span.offset) - y;
      pen.fillStyle = this.colours[KIND_COLOURS[span.kind]];
      pen.globalAlpha = this.hover && this.hover.span === span ? 1 : 0.65;
      pen.fillRect(x, y, w, h);
      if (h > 2 && w > 2) pen.strokeRect(x, y, w, h);
    }
    pen.globalAlpha = 1;
  }

  // Under the axis: which part of the step, and where buckets are ready.
  drawPhases() {
    const {pen, model, xOf, yOf} = this, y = yOf(0) + 4, lanes = model.nodes.map(laneOf);
    const first = lanes.indexOf(1), last = lanes.lastIndexOf(1) + 1;
    [['forward', 0, first], ['backward', first, last], ['update', last, lanes.length]].forEach(
        ([name, from, to], lane) => {
          pen.fillStyle = this.colours[LANE_COLOURS[lane]];
          pen.fillRect(xOf(from), y, xOf(to) - xOf(from), 3);
          this.text(name, xOf(from) + 1, y + 11, '--muted', 'left');
        });
    let free = 0;  // where there is room for the next name
    for (const {name, ready_index: at} of model.doc.plan.buckets) {
      if (at == null) continue;
      const x = xOf(at + 1), title = plain(name), half = pen.measureText(title).width / 2;
      pen.fillStyle = this.colours['--sum'];
      pen.fillRect(x - 0.75, MARGIN.top, 1.5, y - MARGIN.top + 3);
      if (x - half < free) continue;
      this.text(title, x, y + 23, '--sum', 'center');
      free = x + half + 6;
    }
  }

  drawMarks(w) {
    const {pen, model, hover, xOf, yOf} = this, bottom = yOf(0);
    for (const span of new Set(this.selected ? this.selected.outputs.map(value => value.span) : [])) {
      if (!span) continue;  // while what the selected node gives is there
      pen.fillStyle = this.colours['--select'];
      pen.fillRect(xOf(span.first), bottom - 1, Math.max(2, xOf(span.last + 1) - xOf(span.first)), 3);
    }
    const mark = (time, colour, label) => {
      const x = xOf(time + 0.5), half = pen.measureText(label).width / 2;
      pen.fillStyle = this.colours[colour];
      pen.fillRect(x - 0.5, MARGIN.top - 2, 1, bottom - MARGIN.top + 2);
      const middle = Math.max(MARGIN.left + half, Math.min(w - half - 8, x));
      this.text(label, middle, 8, colour, 'center');
    };
    const alive = at => `${formatBytes(aliveAt(model, at))} at #${at} ${model.nodes[at].op}`;
    const span = hover && hover.span;
    mark(model.peak, '--text', hover ? '' : 'peak ' + alive(model.peak));
    if (this.time !== model.peak) mark(this.time, '--select', '');
    if (hover) {
      mark(hover.time, '--select', !span ? alive(hover.time)
          : `${spanTitle(span)}: ${formatBytes(span.bytes)}, #${span.first} to #${span.last}`);
    }
  }
}
