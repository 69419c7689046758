'use strict';
// Search, zoom and choice of time. Without this script, the page shows the drawing of the whole.
document.querySelectorAll('.flame-view').forEach(function (view) {
  function part(name) { return view.querySelector('.flame-' + name); }
  var data = JSON.parse(part('data').textContent);
  var place = part('place'), told = part('told');
  var search = part('search'), found = part('found');
  var count = data.parents.length, ROW = 18, children = [], depths = [0];
  var hasBase = data.base.length > 0;
  var from = 0, to = Infinity, root = 0, needle = '';
  for (var node = 0; node < count; node++) children.push([]);
  for (node = 1; node < count; node++) {
    children[data.parents[node]].push(node);
    depths[node] = depths[data.parents[node]] + 1;
  }
  function name(node) { return data.names[data.nameOf[node]]; }
  children.forEach(function (list) { list.sort(function (a, b) { return name(a) < name(b) ? -1 : 1; }); });

  function amount(value) {
    var units = data.unit === 'ns' ? [['ns', 1], ['µs', 1e3], ['ms', 1e6], ['s', 1e9]]
      : [['B', 1], ['KiB', 1024], ['MiB', 1048576], ['GiB', 1073741824]];
    var at = 0;
    while (at < 3 && value >= units[at + 1][1]) at++;
    return (value / units[at][1]).toPrecision(3) + ' ' + units[at][0];
  }
  function percent(share) { return (share * 100).toFixed(1) + ' %'; }
  function sums(samples, all) {
    var own = new Float64Array(count), total;
    samples.forEach(function (sample) {
      if (all || (sample[0] >= from && sample[0] < to)) own[sample[1]] += sample[2];
    });
    total = own.slice();
    for (var node = count - 1; node > 0; node--) total[data.parents[node]] += total[node];
    return { own: own, total: total };
  }
  function kind(node) {
    var path = name(node).replace(/^[<&(]+/, '');
    if (depths[node] < 2) return 'f-root';
    if (path.indexOf('pellucid') === 0) return 'f-own';
    return /^(std::|core::|alloc::|__rust)/.test(path) ? 'f-std' : 'f-other';
  }
  function change(difference) {
    if (difference > 0.02) return ['d-up2', '+ '];
    if (difference > 0.002) return ['d-up1', '+ '];
    if (difference < -0.02) return ['d-down2', '− '];
    return difference < -0.002 ? ['d-down1', '− '] : ['d-same', ''];
  }
  function element(tag, attributes, parent) {
    var made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    Object.keys(attributes).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    parent.appendChild(made);
    return made;
  }
  function isFound(node) { return needle !== '' && name(node).toLowerCase().indexOf(needle) >= 0; }

  // What functions that match take below the root, with those too narrow for a bar.
  function matched() {
    var inFound = [], sum = 0;
    for (var node = root; node < count; node++) {
      var isBelow = node === root ? false : inFound[data.parents[node]];
      if (isBelow === undefined) continue;
      inFound[node] = isBelow || isFound(node);
      if (inFound[node] && !isBelow) sum += present.total[node];
    }
    return sum;
  }

  var present = sums(data.samples, false), base = hasBase ? sums(data.base, true) : null;

  function draw() {
    var width = Math.max(300, place.clientWidth), whole = present.total[root] || 1;
    var svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    var deepest = 0;
    // The callers of the zoomed function stay above it, over the whole width.
    var above = [], node = root;
    while (node !== 0) { node = data.parents[node]; above.unshift(node); }
    function bar(node, x, barWidth) {
      var share = present.total[node] / (present.total[0] || 1), mark = kind(node), sign = '';
      if (base) {
        var marks = change(share - base.total[node] / (base.total[0] || 1));
        mark = marks[0];
        sign = marks[1];
      }
      var text = name(node) + ': ' + percent(share) + ' of all, ' + amount(present.total[node]);
      if (base) text += ', before ' + percent(base.total[node] / (base.total[0] || 1));
      var group = element('g', { tabindex: 0, role: 'button', 'aria-label': text, 'data-node': node }, svg);
      if (isFound(node)) group.setAttribute('class', 'found');
      deepest = Math.max(deepest, depths[node]);
      element('rect', { x: x, y: depths[node] * ROW, width: Math.max(0.3, barWidth - 0.5), height: ROW - 1, 'class': mark }, group);
      var letters = Math.floor((barWidth - 6) / 6.7), label = sign + name(node);
      if (letters >= 3) {
        element('text', { x: x + 3, y: depths[node] * ROW + 12.5 }, group).textContent =
          label.length > letters ? label.slice(0, letters - 1) + '…' : label;
      }
    }
    above.forEach(function (node) { bar(node, 0, width); });
    var open = [[root, 0]];
    while (open.length) {
      var next = open.pop(), at = next[1];
      bar(next[0], at, present.total[next[0]] / whole * width);
      children[next[0]].forEach(function (child) {
        var childWidth = present.total[child] / whole * width;
        if (childWidth >= 0.4) open.push([child, at]);
        at += childWidth;
      });
    }
    svg.setAttribute('viewBox', '0 0 ' + width + ' ' + (deepest + 1) * ROW);
    svg.setAttribute('class', 'flame');
    svg.setAttribute('role', 'group');
    svg.setAttribute('aria-label', 'Flame graph');
    place.textContent = '';
    place.appendChild(svg);
    found.textContent = needle === '' ? '' : percent(matched() / whole) + ' of what is shown is in functions that match';
    list();
  }
  function list() {
    var byName = {}, body = part('functions').querySelector('tbody');
    for (var node = 0; node < count; node++) {
      if (present.own[node] > 0) byName[data.nameOf[node]] = (byName[data.nameOf[node]] || 0) + present.own[node];
    }
    var order = Object.keys(byName).sort(function (a, b) { return byName[b] - byName[a]; }).slice(0, 40);
    body.textContent = '';
    order.forEach(function (name) {
      var row = body.insertRow(), head = document.createElement('th');
      head.scope = 'row';
      head.textContent = data.names[name];
      row.appendChild(head);
      [['own share', percent(byName[name] / (present.total[0] || 1))], ['own amount', amount(byName[name])]].forEach(function (cell) {
        var made = row.insertCell();
        made.textContent = cell[1];
        made.dataset.of = cell[0];
      });
    });
  }
  function nodeOf(event) {
    var group = event.target.closest && event.target.closest('g[data-node]');
    return group ? Number(group.dataset.node) : -1;
  }
  function zoom(node) {
    root = node;
    draw();
    var bar = place.querySelector('g[data-node="' + node + '"]');
    if (bar) bar.focus({ preventScroll: true });
  }
  function tell(event) {
    var group = event.target.closest && event.target.closest('g[data-node]');
    if (group) told.textContent = group.getAttribute('aria-label');
  }
  place.addEventListener('click', function (event) { if (nodeOf(event) >= 0) zoom(nodeOf(event)); });
  place.addEventListener('pointerover', tell);
  place.addEventListener('focusin', tell);
  place.addEventListener('keydown', function (event) {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      if (nodeOf(event) >= 0) zoom(nodeOf(event));
    } else if (event.key === 'Escape') zoom(0);
  });
  part('reset').addEventListener('click', function () { zoom(0); });
  search.addEventListener('input', function () {
    needle = search.value.toLowerCase();
    draw();
  });
  part('tools').hidden = false;

  // The heat map: a stretch is chosen by dragging over columns, or by its times.
  var heat = part('heat');
  if (heat) {
    var columns = heat.viewBox.baseVal.width;
    var seconds = heat.viewBox.baseVal.height * data.cellNs / 1e9;
    var fromField = part('from'), toField = part('to');
    var mark = element('rect', { y: 0, height: heat.viewBox.baseVal.height, width: 0, 'class': 'heat-span' }, heat);
    var choose = function (begin, end) {
      var isWhole = begin <= 0 && end >= columns * seconds;
      from = isWhole ? 0 : begin * 1e9 / data.cellNs;
      to = isWhole ? Infinity : end * 1e9 / data.cellNs;
      fromField.value = begin;
      toField.value = end;
      mark.setAttribute('x', isWhole ? 0 : begin / seconds);
      mark.setAttribute('width', isWhole ? 0 : (end - begin) / seconds);
      present = sums(data.samples, false);
      draw();
    };
    var column = function (event) {
      var area = heat.getBoundingClientRect();
      return Math.min(columns - 1, Math.max(0, Math.floor((event.clientX - area.left) / area.width * columns)));
    };
    var start = null;
    heat.addEventListener('pointerdown', function (event) {
      start = column(event);
      heat.setPointerCapture(event.pointerId);
    });
    heat.addEventListener('pointerup', function (event) {
      if (start === null) return;
      var end = column(event);
      choose(Math.min(start, end) * seconds, (Math.max(start, end) + 1) * seconds);
      start = null;
    });
    var byFields = function () {
      var begin = Number(fromField.value), end = Number(toField.value);
      if (end > begin) choose(begin, end);
    };
    fromField.addEventListener('change', byFields);
    toField.addEventListener('change', byFields);
    part('whole').addEventListener('click', function () { choose(0, columns * seconds); });
    part('span').hidden = false;
  }
  addEventListener('resize', draw);
  // A closed view has no width.
  for (var fold = view.closest('details'); fold; fold = fold.parentElement.closest('details')) {
    fold.addEventListener('toggle', draw);
  }
  draw();
});
