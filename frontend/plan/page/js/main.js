// The frame: header, columns, views that are built when they come near.

const VIEWS = /** @type {View[]} */ ([
  verdictView, layoutView, devicesView, meshView, graphView, ledgerView, timelineView, memoryView,
  compareView, partsView
]);
const NEAR = 600;

/** @param {Page} page */
function buildPage(page) {
  const {plan} = page;
  const main = document.getElementById('main');
  // The inspector takes its room first: what the source scrolls to is not behind it then.
  const inspector = buildInspector(page);
  const left = html('div.left', {}, buildSource(page), inspector);
  const right = html('div.views');
  const [verdict, ...views] =
      VIEWS.filter(view => !view.exists || view.exists(page)).map(view => new Section(page, view));
  const sections = [verdict, ...views];
  // To measure in the midst of drawing would lay out the page each time.
  let width = null;
  new ResizeObserver(() => width = null).observe(right);
  page.width = () => width ??= roomIn(right);
  left.firstChild.id = 'source';
  put(right, views.map(section => section.element));
  put(main, html('div.columns', {}, left, right));
  verdict.build();
  const header = buildHeader(page, sections);
  document.body.append(tip, buildFooter(plan));
  watch(page, sections, header);
  listenToKeys(page, sections, header.places);
}

/** @param {Page} page */
function revealLine(page, index) {
  page.showLine(index);
  const row = /** @type {HTMLElement} */ (document.querySelector(`.line[data-index="${index}"]`));
  const {top, bottom} = row.getBoundingClientRect();
  const {scrollPaddingTop, scrollPaddingBottom} = getComputedStyle(document.documentElement);
  if (top < parseFloat(scrollPaddingTop) - 12 ||
      bottom > innerHeight * (1 - (parseFloat(scrollPaddingBottom) || 0) / 100)) {
    const left = /** @type {HTMLElement} */ (row.closest('.left'));
    if (getComputedStyle(left).position === 'sticky')
      left.scrollIntoView({block: 'start'});
    else
      row.scrollIntoView({block: 'center'});
  }
  row.focus({preventScroll: true});
}

/** @param {HTMLElement} element */
function roomIn(element) {
  const style = getComputedStyle(element);
  return Math.floor(
      element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
}

class Section {
  /** @param {Page} page @param {View} view */
  constructor(page, view) {
    this.page = page;
    this.view = view;
    this.parts = /** @type {ViewParts} */ (null);
    // That of the verdict stands there already.
    this.element = document.getElementById(view.id) || makeSection(view);
    // Tab gets here from one that is near before this one is.
    this.element.addEventListener('focus', () => {
      this.build();
      this.element.querySelector('h1, h2').scrollIntoView({block: 'nearest'});
    });
  }

  build() {
    if (this.parts) return;
    this.parts = this.view.build(this.page);
    const {controls, body} = this.parts;
    this.element.style.removeProperty('min-height');
    const text = this.view.text(this.page);
    // The verdict has a headline of its own.
    put(this.element,
        text ? html(
                   'div.view-head', {}, html('h2', {}, this.view.title),
                   controls && controls.length ? html('div.controls', {}, controls) : null,
                   html('p', {}, text)) :
               null,
        body);
    if (this.parts.shown) this.parts.shown();
    this.page.paint();
  }
}

/** @param {View} view */
const makeSection = view => html('section.view', {
  id: view.id,
  tabindex: 0,
  'aria-label': view.title,
  style: {'min-height': pixels(view.height)}
});

/** @param {Page} page @param {Section[]} sections */
function buildHeader(page, sections) {
  const places = [];
  for (const section of sections) {
    places.push({id: section.view.id, name: section.view.name, occurs: section.view.occurs});
    // The source stands beside all views, but second in the header.
    if (section.view.id === 'verdict')
      places.push({id: 'source', name: 'Source', occurs: related => related.line.size > 0});
  }
  const buttons = places.map(
      place => html('button', {type: 'button', onclick: () => page.show(place.id)}, place.name));
  const nav = html('nav', {'aria-label': 'Views'}, buttons);
  put(clear(document.getElementById('top')), html('span.model', {}, page.plan.model), nav,
      html(
          'button.tool',
          {type: 'button', title: 'Find anything', onclick: () => openPalette(page, sections)},
          'Find', html('kbd', {}, '/')),
      html(
          'button.tool.roomy',
          {type: 'button', title: 'Light or dark (t)', onclick: () => switchTheme(page)}, 'Theme'),
      html('button.tool.roomy', {type: 'button', title: 'Keys (?)', onclick: openHelp}, '?'));
  return {
    places,
    /** @param {string} current */
    mark(current) {
      places.forEach((place, index) => {
        const button = buttons[index];
        const isCurrent = place.id === current;
        // Where the names do not fit beside each other, the current one is in sight.
        if (isCurrent && !button.classList.contains('current'))
          nav.scrollLeft = button.offsetLeft + button.offsetWidth / 2 - nav.clientWidth / 2;
        button.classList.toggle('current', isCurrent);
        button.classList.toggle('occurs', !!page.item && place.occurs(page.related));
      });
    },
  };
}

/** @param {Plan} plan */
function buildFooter(plan) {
  const {json, machine} = plan;
  const sha = json.sha256 ? `, sha256 ${json.sha256.slice(0, 12)}` : '';
  const predicted = plan.timed ? `Times are predicted for ${machine.label}` :
                                 `${untimedClause(plan)}: no times are predicted`;
  const times = `${predicted}${
      plan.trace ? '; measured times are those of a trace.' : '; nothing here was measured.'}`;
  return html(
      'footer', {}, machine ? constantsOf(machine) : null,
      `${json.spec.path}, ${json.producer}, ${json.schema}${
          sha}. Bytes, layouts, messages and causes are the compiler’s. ${times}`);
}

/** What the times are made of, and where each number comes from. */
function constantsOf(machine) {
  return html(
      'details', {},
      html(
          'summary', {},
          `${formatCount(machine.constants.length, 'constant')} of ${machine.label}`),
      html(
          'div.scroll', {},
          html(
              'table', {},
              html(
                  'tbody', {},
                  machine.constants.map(
                      ({name, value, unit, made, source}) => html(
                          'tr', {}, html('td', {}, name),
                          html('td.right', {}, `${formatFactor(value)} ${unit}`),
                          html('td', {}, made.replace(/_/g, ' ')), html('td', {}, source)))))));
}

let pointed = /** @type {Element} */ (null);
addEventListener('pointerdown', event => pointed = /** @type {Element} */ (event.target), true);

/** Within a view what is pointed at or has the focus, or the view in the middle of the screen. */
function lookedAt() {
  const isSeen = element => {
    const {top, bottom} = element.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  };
  const own = [pointed, document.activeElement].find(
      element => element && element.closest('.views') && isSeen(element));
  const views = [...document.querySelectorAll('section.view')];
  return {
    own,
    view: own ? own.closest('section.view') :
                views.filter(view => view.getBoundingClientRect().top < innerHeight / 2).pop()
  };
}

/** Acts, and leaves what is looked at where it is: views above it may be drawn anew. */
function holdStill(act) {
  const {own, view} = lookedAt();
  const topOf = element => element ? element.getBoundingClientRect().top : 0;
  const before = [topOf(own), topOf(view)];
  act();
  // What is drawn anew is held by its view.
  const moved = own && own.isConnected ? topOf(own) - before[0] : topOf(view) - before[1];
  if (moved) scrollBy(0, moved);
}

/** @param {Page} page @param {Section[]} sections */
function watch(page, sections, header) {
  const byId = new Map(sections.map(section => [section.view.id, section]));
  const spy = () => {
    let current = header.places[0].id;
    for (const place of header.places) {
      const element = document.getElementById(place.id);
      if (place.id !== 'source' && element.getBoundingClientRect().top < 140) current = place.id;
    }
    header.mark(current);
  };
  page.show = id => {
    const element = document.getElementById(id);
    if (!element) return;
    page.view = id;
    byId.get(id)?.build();
    element.scrollIntoView({block: 'start'});
    // Tab and the arrows go on from there.
    const focused = byId.has(id) ? element : element.parentElement.querySelector('.lines');
    /** @type {HTMLElement} */ (focused).focus({preventScroll: true});
    spy();
    writeHash(page);
  };
  page.reveal = id => {
    const {item} = page;
    // The source stands beside the views, where it is in sight unless it is above or below.
    if (id === 'source' && item && item.kind === 'line')
      revealLine(page, item.index);
    else
      page.show(id);
    const section = byId.get(id);
    if (!section) return;
    if (section.parts.reveal) section.parts.reveal();
    section.element.querySelector('.selected')?.scrollIntoView({block: 'nearest'});
    spy();
  };
  page.listeners.push(() => {
    holdStill(() => {
      for (const section of sections)
        if (section.parts && section.parts.select) section.parts.select();
    });
    page.paint();
    spy();
    writeHash(page);
  });
  const observer = new IntersectionObserver(entries => {
    const near = entries.filter(entry => entry.isIntersecting);
    holdStill(() => near.forEach(entry => byId.get(entry.target.id).build()));
  }, {rootMargin: NEAR + 'px'});
  for (const section of sections) observer.observe(section.element);
  addEventListener('beforeprint', () => {
    for (const section of sections) section.build();
    for (const details of document.querySelectorAll('details')) details.open = true;
    // On paper a drawing of a wider screen is made smaller rather than cut off.
    for (const picture of document.querySelectorAll('.view svg'))
      picture.setAttribute(
          'viewBox', `0 0 ${picture.getAttribute('width')} ${picture.getAttribute('height')}`);
  });
  addEventListener('afterprint', () => {
    for (const picture of document.querySelectorAll('.view svg'))
      picture.removeAttribute('viewBox');
  });
  addEventListener('scroll', () => requestAnimationFrame(spy), {passive: true});
  let waiting = 0;
  addEventListener('resize', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const section of sections)
        if (section.parts && section.parts.resize) section.parts.resize();
      page.paint();
    }, 120);
  });
  spy();
}

// Links: #sel=c17&dev=5&view=ledger&theme=dark. Browsers throttle bursts of them, so that one is
// written late.
let hashTimer = 0;
let reading = false;

/** @param {Page} page */
function writeHash(page) {
  if (reading) return;
  clearTimeout(hashTimer);
  hashTimer = setTimeout(() => {
    const words = [];
    if (page.item) words.push('sel=' + encodeURIComponent(keyOf(page.plan, page.item)));
    if (page.deviceChosen) words.push('dev=' + page.device);
    if (page.view) words.push('view=' + page.view);
    if (page.theme) words.push('theme=' + page.theme);
    history.replaceState(null, '', '#' + words.join('&'));
  }, 80);
}

/**
 * @param {Page} page
 * @param {string} link  of which the hash is read; a link that waits to be written is late
 */
function readHash(page, link) {
  clearTimeout(hashTimer);
  const words = new URLSearchParams(new URL(link).hash.slice(1));
  reading = true;
  const device = words.get('dev') || '';
  if (/^\d+$/.test(device) && Number(device) < page.plan.devices) {
    page.device = Number(device);
    page.deviceChosen = true;
  }
  setTheme(page, words.get('theme'));
  const item = words.has('sel') ? itemOf(page.plan, words.get('sel')) : null;
  page.select(item, true);
  if (words.has('view')) page.show(words.get('view'));
  if (item && item.kind === 'line') page.showLine(item.index);
  reading = false;
}

/** @param {{theme: string}} page */
function setTheme(page, theme) {
  if (theme !== 'dark' && theme !== 'light') return;
  page.theme = theme;
  document.documentElement.dataset.theme = theme;
}

/** The headline: what reads it need not wait until all of the plan is unpacked and drawn. */
function showAnswer() {
  const plan = readAnswer(JSON.parse(document.getElementById('answer').textContent));
  setTheme({theme: ''}, new URLSearchParams(location.hash.slice(1)).get('theme'));
  document.title = showControls(`${plan.model}: sharding plan`);
  put(document.getElementById('top'), html('span.model', {}, plan.model));
  put(document.getElementById('main'),
      put(makeSection(verdictView), html('div', {}, eyebrow(plan), headline(plan))));
}

/** When what is on the page has been painted, and all of the file is there. */
async function painted() {
  if (!document.hidden) await new Promise(end => requestAnimationFrame(() => setTimeout(end)));
  if (document.readyState === 'loading')
    await new Promise(end => document.addEventListener('DOMContentLoaded', end));
}

/** The JSON of the plans, which the file has packed. */
async function unpackPlans() {
  const text = atob(document.getElementById('plan').textContent);
  const packed = new Uint8Array(text.length);
  for (let place = 0; place < text.length; ++place) packed[place] = text.charCodeAt(place);
  const stream = new Blob([packed]).stream().pipeThrough(
      new (/** @type {any} */ (window)).DecompressionStream('deflate'));
  return new Response(stream).json();
}

function start(json) {
  const plans = json.map(readPlan);
  axesOfMesh = plans[0].axes;
  addPatterns(plans[0].axes, plans.flatMap(plan => plan.collectives.map(one => one.axes)));
  const page = new Page(plans[0], plans.slice(1));
  buildPage(page);
  readHash(page, location.href);
  // A link that was written since then may stand in the address already.
  addEventListener('hashchange', event => readHash(page, event.newURL));
  // For tests, which read when it was there, what is selected and who holds what.
  performance.mark('built');
  Object.assign(window, {planPage: {page, heldRanges, costOfLines, makeCurve}});
}

async function showPage() {
  showAnswer();
  await painted();
  start(await unpackPlans());
}
showPage().catch(error => {
  document.getElementById('main').textContent = `This browser cannot show the plan: ${error}`;
  throw error;
});
