/**
 * Makes the pictures of src/console/README.md: `node dist/test/console/screenshots.js DIR`. Three nodes, some
 * streams and a little load, so that there is something to see.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { startChromium, visit } from '../support/chromium.ts';
import { TestCluster } from '../support/cluster.ts';
import { clusterToml, scratchFile, startCtl } from '../support/ctl.ts';
import { until } from '../support/until.ts';

const SHOTS = [
  { name: 'cluster', path: 'cluster', width: 1280, colours: 'light' },
  { name: 'traffic', path: 'traffic', width: 1280, colours: 'dark' },
  { name: 'stream', path: 'streams/demo/events', width: 1280, colours: 'light' },
  { name: 'phone', path: 'cluster', width: 390, colours: 'dark' },
] as const;
/** So much of the plots is filled: a picture of two points shows nothing. */
const LOAD_MS = 60_000;
const PAUSE_MS = 5;
const JSON_TYPE = { 'Content-Type': 'application/json' };

const [folder] = process.argv.slice(2);
assert(folder !== undefined, 'usage: node dist/test/console/screenshots.js DIR');
const cluster = await TestCluster.create({ process: true, groups: 8 });
const browser = await startChromium();
try {
  await cluster.startAll();
  for (const name of ['events', 'orders', 'chat-0412', 'traces'])
    await cluster.client(1).expect(201, 'PUT', `/demo/${name}`, JSON_TYPE);
  const tool = startCtl([
    'console',
    '--config',
    scratchFile('prod.toml', clusterToml(cluster)),
    '--listen',
    '127.0.0.1:0',
  ]);
  await until('the address of the console', () => tool.stdout.endsWith('\n'));
  const address = /http:\S+/.exec(tool.stdout)?.[0] ?? '';
  const visits = await Promise.all(SHOTS.map(async (shot) => ({ shot, ...(await visit(browser, address, shot)) })));
  for (const { shot, page } of visits) await page.goto(`${new URL(address).origin}/#/${shot.path}`);
  const endMs = performance.now() + LOAD_MS;
  for (let i = 0; performance.now() < endMs; i++) {
    const body = JSON.stringify({ order: 1000 + i, state: i % 3 === 0 ? 'paid' : 'open', total: (i % 97) + 0.5 });
    const node = cluster.client((i % 3) + 1);
    await node.request('POST', `/demo/${i % 2 === 0 ? 'events' : 'traces'}`, JSON_TYPE, body);
    if (i % 4 === 0) await node.request('GET', '/demo/events?tail_records=5');
    await delay(PAUSE_MS);
  }
  for (const { shot, page } of visits) {
    if (shot.name === 'stream') {
      await page.reload();
      await page.getByRole('list', { name: 'Lines' }).getByText('"order"').first().waitFor();
    }
    await page.evaluate('scrollTo(0, 0)');
    await page.screenshot({ path: join(folder, `${shot.name}.png`) });
  }
  tool.interrupt();
  await tool.ended;
} finally {
  await browser.close();
  await cluster.dispose();
}
