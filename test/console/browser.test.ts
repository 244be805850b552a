// The console in a real browser: every view and action against three nodes under load,
// with a node killed while looking.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import axe, { type Result } from 'axe-core';
import type { Browser, Locator, Page } from 'playwright-core';
import { PLOTS } from '../../src/console/model/plots.ts';
import { chromiumMissing, startChromium, visit } from '../support/chromium.ts';
import { TestCluster } from '../support/cluster.ts';
import { type CtlRun, clusterToml, scratchFile, startCtl } from '../support/ctl.ts';
import { until } from '../support/until.ts';

const VIEWS = ['Cluster', 'Traffic', 'Streams', 'Subscriptions', 'Backups'];
const LIST = `document.querySelector('ol.lines')`;
const HIDDEN_BELOW = `${LIST}.scrollHeight - ${LIST}.scrollTop - ${LIST}.clientHeight`;
/** More than the list shows at once. */
const LINES_BEYOND_VIEW = 60;
/** An end for the load, should the test not come to its own. */
const APPENDS_MAX = 120;
/** The page asks for rates every two seconds, so that none of them is zero. */
const PAUSE_MS = 1000;

describe('the console in chromium', { skip: chromiumMissing() ?? false }, () => {
  let cluster: TestCluster;
  let browser: Browser;
  let console: CtlRun;
  let address = '';
  /** Most tests use one page: each is a process of the browser and a program to compile. */
  let page: Page;
  let complaints: string[];
  let load: Promise<void>;
  const ending = new AbortController();

  before(async () => {
    cluster = await TestCluster.create({ groups: 2 });
    await cluster.startAll();
    console = startCtl([
      'console',
      '--config',
      scratchFile('cluster.toml', clusterToml(cluster)),
      '--listen',
      '127.0.0.1:0',
    ]);
    await until(
      () => `the address of the console; now ${console.stdout} ${console.stderr}`,
      () => console.stdout.endsWith('\n'),
    );
    address = /http:\S+/.exec(console.stdout)?.[0] ?? '';
    browser = await startChromium();
    ({ page, complaints } = await visit(browser, address));
    await page.getByRole('row', { name: /node 3 .* ok/ }).waitFor();
    assert.doesNotMatch(page.url(), /key/, 'the key is out of the address');
    await go('streams');
    await page.getByText('There is no bucket yet: the first stream makes one.').waitFor();
    const json = { 'Content-Type': 'application/json' };
    await cluster.client(1).expect(201, 'PUT', '/demo/log', { 'Content-Type': 'text/plain' });
    await cluster.client(1).expect(201, 'PUT', '/demo/events', json);
    await cluster.client(1).expect(204, 'POST', '/demo/events', json, '[{"n":1},{"n":2.50}]');
    load = appendOnAndOn(cluster, ending.signal);
  });

  const go = async (view: string): Promise<unknown> => await page.goto(`${new URL(address).origin}/#/${view}`);

  after(async () => {
    ending.abort();
    await load;
    await browser?.close();
    console?.interrupt();
    await console?.ended;
    await cluster?.dispose();
  });

  it('every view is there, asks no other origin, and offends no policy', async () => {
    await go('cluster');
    await page.getByLabel('What is wrong').getByText('3 of 3 nodes answer; 2 groups').waitFor();
    for (const view of VIEWS) {
      await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: view }).click();
      await page.getByRole('heading', { level: 1, name: view }).waitFor();
      await page.getByRole('banner').getByRole('link', { name: 'All is well' }).waitFor();
    }
    await page.getByText('No export through this node ended early.').first().waitFor();
    await go('traffic');
    await page
      .locator('canvas')
      .nth(PLOTS.length - 1)
      .waitFor();
    // Rates come with the second round.
    await page.getByRole('img', { name: /^Appends: .*node 1 \d/ }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it('a stream is created, written, read in every form, followed, closed and deleted', async () => {
    await go('streams');
    await page.getByRole('button', { name: 'Streams', exact: true }).click();
    await page.getByRole('link', { name: 'demo', exact: true }).click();
    await page.getByText(/; no quota$/).waitFor();
    await page.getByRole('link', { name: 'events', exact: true }).click();
    const lines = page.getByRole('list', { name: 'Lines' });
    await lines.getByText('{"n":2.50}').waitFor();
    await page.getByLabel('As', { exact: true }).selectOption('hex');
    await lines.getByText('7b 22 6e 22 3a 32 2e 35 30 7d').waitFor();
    await page.getByLabel('As', { exact: true }).selectOption('json');
    await page.getByLabel('Search in what is shown').fill('2.5');
    await page.getByText('1 of 2 lines hold the text').waitFor();
    await page.getByLabel('Search in what is shown').fill('');

    await page.getByRole('button', { name: 'Live tail' }).click();
    await page.getByText('Waiting for what is appended').waitFor();
    const json = { 'Content-Type': 'application/json' };
    await cluster.client(2).expect(204, 'POST', '/demo/events', json, '{"n":"live"}');
    await lines.getByText('{"n":"live"}').waitFor();

    await go('streams/demo');
    await page.getByText('Create a stream').click();
    await page.getByLabel('Stream', { exact: true }).fill('a/b <i>');
    await page.getByLabel('Content type').fill('text/plain');
    await act(page, page.getByRole('button', { name: 'Create demo/a/b <i>' }));
    await page.getByRole('link', { name: 'a/b <i>' }).click();
    await page.getByText('Append', { exact: true }).click();
    await page.getByLabel('Text', { exact: true }).fill('<b>hello</b>');
    await act(page, page.getByRole('button', { name: 'Append to demo/a/b <i>' }));
    await lines.getByText('<b>hello</b>').waitFor();
    await act(page, page.getByRole('button', { name: 'Close demo/a/b <i>' }), 'a/b <i>');
    await page.getByText('closed', { exact: true }).waitFor();
    await act(page, page.getByRole('button', { name: 'Delete demo/a/b <i>' }), 'a/b <i>');
    await page.getByText('there is no stream demo/a/b <i>').waitFor();
    assert.deepEqual(complaints, []);
  });

  it('a live tail shows the last line, unless its reader went back', async () => {
    const json = { 'Content-Type': 'application/json' };
    await cluster.client(2).expect(201, 'PUT', '/demo/tail', json);
    await go('streams/demo/tail');
    await page.getByRole('button', { name: 'Live tail' }).click();
    await page.getByText('Waiting for what is appended').waitFor();
    const lines = page.getByRole('list', { name: 'Lines' });
    const append = async (first: number): Promise<void> => {
      const records = Array.from({ length: LINES_BEYOND_VIEW }, (_, i) => `{"n":${first + i}}`).join(',');
      await cluster.client(2).expect(204, 'POST', '/demo/tail', json, `[${records}]`);
      await lines.getByText(`{"n":${first + LINES_BEYOND_VIEW - 1}}`, { exact: true }).waitFor();
    };
    const hiddenBelow = async (): Promise<number> => await page.evaluate(HIDDEN_BELOW);
    await append(1000);
    await until('the page shows the last line', async () => (await hiddenBelow()) < 2);
    await page.evaluate(`${LIST}.scrollTo({ top: 0 })`);
    await append(2000);
    assert.equal(await page.evaluate(`${LIST}.scrollTop`), 0, 'a reader who went back stays there');
    await cluster.client(2).expect(204, 'POST', '/demo/tail', json, `{"long":"${'x'.repeat(300)}"}`);
    await lines.getByText(/^\{"long":"x{150}…$/).waitFor();
    assert.deepEqual(complaints, []);
  });

  it('a node is drained and undrained, a group handed over, and a bucket purged', async () => {
    await go('cluster');
    await act(page, page.getByRole('button', { name: 'Drain node 2' }), 'node 2');
    await page.getByRole('row', { name: /node 2 .* drained/ }).waitFor();
    await page.getByText('marked for maintenance').waitFor();
    await page.getByRole('button', { name: 'Drain node 3' }).click();
    await page.getByRole('dialog').getByText('Marked already: node 2').waitFor();
    await page.keyboard.press('Escape');
    await act(page, page.getByRole('button', { name: 'Undrain node 2' }));
    await page.getByRole('row', { name: /node 2 .* ok/ }).waitFor();

    await page.getByRole('button', { name: 'Group 0', exact: true }).click();
    const handOver = page.getByRole('button', { name: /^Hand group 0 to node \d$/ }).first();
    await handOver.click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/^millracectl transfer --group 0 --to \d$/).waitFor();
    await dialog.locator('button[type=submit]').click();
    // Done, or the leader's refusal: leaderships move by themselves as well.
    await dialog.locator('.note').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });

    await cluster.client(1).expect(201, 'PUT', '/doomed/s', { 'Content-Type': 'text/plain' });
    await go('streams/doomed');
    await page.getByRole('link', { name: 's', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Purge bucket doomed' }).click();
    await dialog.getByText('millracectl bucket purge --bucket doomed --confirm doomed').waitFor();
    await dialog.getByRole('textbox').fill('doome');
    assert.equal(await dialog.getByRole('button', { name: 'Purge bucket doomed' }).isDisabled(), true);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await act(page, page.getByRole('button', { name: 'Purge bucket doomed' }), 'doomed');
    await page.getByText('No streams here.').waitFor();
    assert.deepEqual(complaints, []);
  });

  it('a node that is killed while looking is said, and the page goes on', async () => {
    await go('cluster');
    await page.getByRole('row', { name: /node 3 .* ok/ }).waitFor();
    await cluster.end(3);
    await page.getByText(/node 3 has not answered for \d+ s: .*connection refused/).waitFor();
    await page.getByRole('banner').getByRole('link', { name: '1 fault' }).waitFor();
    // Groups that it led have no leader for a second or two.
    await until('one fault is one bar, and no bar says that all is fine', async () => {
      const [bad, fine] = await Promise.all(['.bad', '.info'].map((kind) => page.locator(`.findings ${kind}`).count()));
      return bad === 1 && fine === 0;
    });
    await page.getByRole('row', { name: /node 3 127.* does not answer/ }).waitFor();
    await page.getByRole('cell', { name: /node 3 .* group 0, and does not answer/ }).waitFor();
    await page
      .getByText(/node 3 .*connection refused/)
      .first()
      .waitFor();
    await go('streams/demo/events');
    await page.getByLabel('Through').selectOption('3');
    await page
      .getByText(/connection refused/)
      .first()
      .waitFor();
    await page.getByLabel('Through').selectOption('2');
    await page.getByRole('list', { name: 'Lines' }).getByText('{"n":2.50}').waitFor();
    await cluster.restart(3);
    await go('cluster');
    await page.getByRole('row', { name: /node 3 .* ok/ }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it('plots begin when the nodes started; labels of axes are whole and differ, and a node has one colour in every plot', async () => {
    const kept = `${cluster.node(1).adminUrl}/__svc/metrics/history`;
    await until('two samples of the past', async () => {
      const { rows } = (await (await fetch(kept)).json()) as { rows: unknown[] };
      return rows.length >= 2;
    });
    await page.addInitScript({ content: KEEP_LABELS });
    await go('traffic');
    const openedMs = Date.now();
    await page.reload();
    await plotsBeginBefore(page, openedMs);
    await page.getByRole('img', { name: /^Memory: .*node 3 \d/ }).waitFor();
    const plots = await page.evaluate<DrawnLabel[][]>(KEPT_LABELS);
    assert.equal(plots.length, PLOTS.length);
    for (const labels of plots) {
      const texts = labels.map(({ text }) => text);
      assert(texts.length >= 2 && new Set(texts).size === texts.length, texts.join(', '));
      assert(Math.min(...labels.map(({ leftPx }) => leftPx)) >= 0, `cut at the left: ${texts.join(', ')}`);
    }
    let legends: string[] = [];
    // Statuses are added up over the nodes, and rates of a node that has just started come with the second round.
    await until('the nodes are in most plots', async () => {
      legends = await page.evaluate<string[]>(LEGENDS);
      return legends.length > 2 * PLOTS.length;
    });
    assert.equal(new Set(legends).size, 3, [...new Set(legends)].join(', '));
    assert.deepEqual(complaints, []);
  });

  it("a node's own page shows that node, its past, and what it knows of the others", async () => {
    const openedMs = Date.now();
    const { page, complaints } = await visit(browser, `${cluster.node(1).adminUrl}/`);
    await page.getByRole('row', { name: /node 1 .* ok/ }).waitFor();
    await page.getByRole('row', { name: /node 2 .*not asked from here/ }).waitFor();
    await page.getByText('This page is that of one node').waitFor();
    await page.goto(`${cluster.node(1).adminUrl}/#/traffic`);
    await plotsBeginBefore(page, openedMs);
    await page.goto(`${cluster.node(1).adminUrl}/#/streams/demo/events`);
    await page.getByRole('list', { name: 'Lines' }).getByText('{"n":2.50}').waitFor();
    assert.deepEqual(complaints, []);
    await page.context().close();
  });

  it('without the key the page asks for it, and says when it is wrong; keys alone are enough to use it', async () => {
    const { page } = await visit(browser, new URL(address).origin);
    const key = page.getByLabel('Key');
    await key.fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    await key.fill(address.split('=')[1] ?? '');
    await page.keyboard.press('Enter');
    await page.getByRole('row', { name: /node 1 .* ok/ }).waitFor();
    await page.getByRole('link', { name: 'Cluster' }).focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Traffic' }).waitFor();
    assert.equal(await page.evaluate('document.activeElement.id'), 'main');
    await page.context().close();
  });

  it('on a phone, light and dark, no view is wider than the screen, and axe finds nothing', async () => {
    const { page } = await visit(browser, address, { width: 360, bypassCSP: true });
    await page.evaluate(axe.source);
    const check = async (what: string): Promise<void> => {
      for (const colours of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme: colours });
        assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 360, `${what}, ${colours}`);
        // The elements are the same.
        const rules = colours === 'dark' ? ['color-contrast'] : undefined;
        assert.deepEqual(await faultsOf(page, rules), [], `${what}, ${colours}`);
      }
    };
    await page.getByRole('row', { name: /node 1 .* ok/ }).waitFor();
    for (const view of [...VIEWS.map((name) => name.toLowerCase()), 'streams/demo/events']) {
      await page.goto(`${new URL(address).origin}/#/${view}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await check(view);
    }
    await page.getByRole('button', { name: 'Delete demo/events' }).click();
    await page.getByRole('dialog').waitFor();
    await check('a dialog');
    await page.context().close();
  });
});

/** Runs in the page before its program: a canvas keeps what was drawn of its axis of values since it was cleared. */
const KEEP_LABELS = `
  const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
  globalThis.labels = new WeakMap();
  CanvasRenderingContext2D.prototype.clearRect = function (...box) {
    labels.set(this.canvas, []);
    clearRect.apply(this, box);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    if (this.textAlign === 'right') labels.get(this.canvas).push({ text, leftPx: x - this.measureText(text).width });
    fillText.call(this, text, x, y);
  };
`;
const KEPT_LABELS = `[...document.querySelectorAll('canvas')].map((canvas) => labels.get(canvas))`;
const LEGENDS = `[...document.querySelectorAll('.u-series')].map((line) => {
  const node = /^node \\d+/.exec(line.textContent)?.[0];
  return node && node + ' ' + getComputedStyle(line.querySelector('.u-marker')).borderColor;
}).filter(Boolean)`;

interface DrawnLabel {
  readonly text: string;
  readonly leftPx: number;
}

/** The page was opened at that time. */
async function plotsBeginBefore(page: Page, openedMs: number): Promise<void> {
  await page.getByRole('button', { name: 'All' }).click();
  const since = page.getByText(/^Since 2\d{3}-/);
  await until('the plots have a past', async () => {
    const [, time = ''] = /Since (\S+ \S+) UTC/.exec(await since.innerText()) ?? [];
    return Date.parse(`${time.replace(' ', 'T')}Z`) < openedMs - 1000;
  });
}

/** Faults that axe finds: people with other senses, or without a mouse, would stumble over them. */
async function faultsOf(page: Page, runOnly?: readonly string[]): Promise<string[]> {
  // Reports of elements without faults stay in the page.
  const run = `axe.run(${JSON.stringify({ runOnly, resultTypes: ['violations'] })})`;
  const violations = await page.evaluate<Result[]>(`${run}.then(({ violations }) => violations)`);
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
}

/** Leaders change by themselves on a busy machine: an action that finds none is repeated, as a person would. */
const ATTEMPTS = 5;

/** Opens the dialog, types what it asks for, and waits until it is done. */
async function act(page: Page, button: Locator, typed?: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    await button.click();
    const dialog = page.getByRole('dialog');
    if (typed !== undefined) await dialog.getByRole('textbox').fill(typed);
    await dialog.locator('button[type=submit]').click();
    const outcome = await dialog.locator('.note').innerText();
    await dialog.getByRole('button', { name: 'Close', exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    if (outcome.startsWith('Done.')) return;
    assert(outcome.startsWith('503') && attempt < ATTEMPTS, outcome);
  }
}

async function appendOnAndOn(cluster: TestCluster, signal: AbortSignal): Promise<void> {
  const headers = { 'Content-Type': 'text/plain' };
  for (let i = 0; i < APPENDS_MAX && !signal.aborted; i++) {
    // Requests that fail while a node is away are part of the load.
    await fetch(`${cluster.node(1).url}/demo/log`, { method: 'POST', headers, body: `line ${i}\n`, signal }).catch(
      () => undefined,
    );
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
