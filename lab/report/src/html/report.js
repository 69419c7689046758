'use strict';
// Conveniences: the page is complete without this script.
(function () {
  var root = document.documentElement;

  // The switch between light and dark.
  var theme = document.getElementById('theme');
  var buttons = Array.from(theme.querySelectorAll('button'));
  function choose(name) {
    if (name === 'auto') root.removeAttribute('data-theme');
    else root.setAttribute('data-theme', name);
    buttons.forEach(function (button) {
      button.setAttribute('aria-pressed', String(button.dataset.theme === name));
    });
  }
  buttons.forEach(function (button) {
    button.addEventListener('click', function () { choose(button.dataset.theme); });
  });
  choose('auto');
  theme.hidden = false;

  // Titles become tooltips that appear at once. Drawings keep their labels for screen readers.
  var tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  document.body.appendChild(tip);
  function show(text, event) {
    tip.textContent = text;
    tip.hidden = false;
    var left = event.clientX + 14, top = event.clientY + 14;
    if (left + tip.offsetWidth > innerWidth - 8) left = event.clientX - tip.offsetWidth - 14;
    if (top + tip.offsetHeight > innerHeight - 8) top = event.clientY - tip.offsetHeight - 14;
    tip.style.left = Math.max(4, left) + 'px';
    tip.style.top = Math.max(4, top) + 'px';
  }
  function hide() { tip.hidden = true; }
  document.querySelectorAll('svg title').forEach(function (title) {
    var mark = title.parentNode, text = title.textContent;
    title.remove();
    if (mark.tagName === 'svg') return;
    mark.addEventListener('pointermove', function (event) { show(text, event); });
    mark.addEventListener('pointerleave', hide);
  });

  // A link opens the closed part that it leads to.
  function reveal() {
    var target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (var fold = target; fold; fold = fold.parentElement) if (fold.tagName === 'DETAILS') fold.open = true;
    target.scrollIntoView();
  }
  document.querySelectorAll('a[href^="#"]').forEach(function (link) {
    link.addEventListener('click', function () { setTimeout(reveal); });
  });
  reveal();

  // Marks tables that are wider than their place.
  var tables = new ResizeObserver(function (entries) {
    entries.forEach(function (entry) {
      var region = entry.target.parentNode;
      region.classList.toggle('is-wide', region.clientWidth > 0 && region.scrollWidth > region.clientWidth + 1);
    });
  });
  document.querySelectorAll('.scroll > table').forEach(function (table) { tables.observe(table); });

  // Jitter plots: the nearest point is shown, and dragging zooms into a range.
  var WIDTH = 10000, HEIGHT = 1000;
  function duration(ns, plain) {
    if (plain && ns === 0) return '0';
    var units = [['ns', 1], ['µs', 1e3], ['ms', 1e6], ['s', 1e9]], at = 0;
    while (at < 3 && Math.abs(ns / units[at][1]) >= 999.5) at++;
    var value = ns / units[at][1], size = Math.abs(value);
    var text = value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
    return (plain ? String(Number(text)) : text) + ' ' + units[at][0];
  }
  function ticks(from, to) {
    var exact = (to - from) / 5, power = Math.pow(10, Math.floor(Math.log10(exact)));
    var step = [1, 2, 5, 10].find(function (each) { return each * power >= exact * 0.999; }) * power;
    var found = [];
    for (var at = Math.ceil(from / step); at * step <= to * 1.000001 && found.length < 12; at++) found.push(at * step);
    return found;
  }
  function element(name, attributes, parent) {
    var made = document.createElementNS(parent.namespaceURI, name);
    Object.keys(attributes).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    parent.appendChild(made);
    return made;
  }
  document.querySelectorAll('svg.jitter').forEach(function (plot) {
    var path = plot.querySelector('.dots');
    var endX = Number(plot.dataset.xNs), endY = Number(plot.dataset.yNs);
    var points = path.getAttribute('d').split('M').slice(1).map(function (text) {
      var pair = text.split(/[ h]/);
      return [pair[0] / WIDTH, 1 - pair[1] / HEIGHT];
    });
    var whole = { x0: 0, x1: 1, y0: 0, y1: 1 }, view = whole, start = null, box = null;
    var reset = document.createElement('button');
    reset.type = 'button';
    reset.className = 'reset';
    reset.textContent = 'Show all again';
    reset.hidden = true;
    plot.parentNode.appendChild(reset);

    function axis(name, from, to, end) {
      var group = plot.querySelector('.ticks.' + name);
      group.textContent = '';
      ticks(from * end, to * end).forEach(function (value) {
        var place = (value / end - from) / (to - from) * 100, percent = (name === 'x' ? place : 100 - place) + '%';
        element('line', name === 'x' ? { x1: percent, x2: percent, y1: 0, y2: '100%' } : { x1: 0, x2: '100%', y1: percent, y2: percent }, group);
        element('text', name === 'x' ? { x: percent, y: '100%', dy: 18 } : { x: -8, y: percent, dy: 4 }, group).textContent = duration(value, true);
      });
    }
    function look(next) {
      view = next;
      var scaleX = 1 / (view.x1 - view.x0), scaleY = 1 / (view.y1 - view.y0);
      path.setAttribute('transform', 'matrix(' + [scaleX, 0, 0, scaleY, -view.x0 * scaleX * WIDTH, -(1 - view.y1) * scaleY * HEIGHT].join(' ') + ')');
      axis('x', view.x0, view.x1, endX);
      axis('y', view.y0, view.y1, endY);
      reset.hidden = view === whole;
    }
    function place(event) {
      var area = plot.getBoundingClientRect();
      return {
        x: Math.min(1, Math.max(0, (event.clientX - area.left) / area.width)),
        y: Math.min(1, Math.max(0, (event.clientY - area.top) / area.height)),
        width: area.width, height: area.height
      };
    }
    function nearest(at) {
      var best = null, least = 14 * 14;
      points.forEach(function (point) {
        var across = ((point[0] - view.x0) / (view.x1 - view.x0) - at.x) * at.width;
        var down = (1 - (point[1] - view.y0) / (view.y1 - view.y0) - at.y) * at.height;
        var distance = across * across + down * down;
        if (distance < least) { least = distance; best = point; }
      });
      return best;
    }
    // An empty drawing would not notice the pointer.
    var area = element('rect', { width: '100%', height: '100%', fill: 'transparent' }, plot);
    area.addEventListener('pointerdown', function (event) {
      if (event.pointerType !== 'mouse' || event.button !== 0) return;
      start = place(event);
      box = element('rect', { 'class': 'zoom-box', width: 0, height: 0 }, plot);
      box.style.pointerEvents = 'none';
      area.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    area.addEventListener('pointermove', function (event) {
      var at = place(event);
      if (start) {
        hide();
        box.setAttribute('x', Math.min(at.x, start.x) * 100 + '%');
        box.setAttribute('y', Math.min(at.y, start.y) * 100 + '%');
        box.setAttribute('width', Math.abs(at.x - start.x) * 100 + '%');
        box.setAttribute('height', Math.abs(at.y - start.y) * 100 + '%');
        return;
      }
      var point = nearest(at);
      if (point) show(duration(point[1] * endY) + '\nat ' + duration(point[0] * endX), event);
      else hide();
    });
    area.addEventListener('pointerup', function (event) {
      if (!start) return;
      var from = start, to = place(event);
      start = null;
      box.remove();
      if (Math.abs(to.x - from.x) * to.width < 8 || Math.abs(to.y - from.y) * to.height < 8) return;
      var wide = view.x1 - view.x0, high = view.y1 - view.y0;
      var top = view.y1;
      look({
        x0: view.x0 + Math.min(from.x, to.x) * wide, x1: view.x0 + Math.max(from.x, to.x) * wide,
        y0: top - Math.max(from.y, to.y) * high, y1: top - Math.min(from.y, to.y) * high
      });
    });
    area.addEventListener('pointercancel', function () { start = null; if (box) box.remove(); });
    area.addEventListener('pointerleave', hide);
    reset.addEventListener('click', function () { look(whole); });
    area.addEventListener('dblclick', function () { look(whole); });
  });
})();
