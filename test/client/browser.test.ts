// A real browser follows 500 streams over one connection, while the node at its other end is killed: no event is
// missing, none comes twice.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { rolldown } from 'rolldown';
import { connect } from '../../src/client/client.ts';
import { chromiumMissing, servePage, startChromium, visit } from '../support/chromium.ts';
import { withCluster } from '../support/cluster.ts';
import { REPO_ROOT } from '../support/paths.ts';

const STREAMS = 500;
const TEXT = { contentType: 'text/plain' };

/** The page's program; `urls` stands in its address. */
const PROGRAM = `
import { connect } from './client.ts';
const client = connect(JSON.parse(decodeURIComponent(location.hash.slice(1)) || '["http://unused"]'));
const state = { bytes: Array(${STREAMS}).fill(0), faults: [], ended: 0 };
const follow = async (i) => {
  const decoder = new TextDecoder();
  let text = '';
  for await (const { data, offset } of client.stream('b', 's' + i).follow()) {
    text += decoder.decode(data);
    if (offset !== text.length) state.faults.push('s' + i + ' has ' + text.length + ' bytes at ' + offset);
    state.bytes[i] = offset;
  }
  if (text !== 'one;two;three;') state.faults.push('s' + i + ' ended with ' + text);
  state.ended++;
};
if (location.hash !== '') for (let i = 0; i < ${STREAMS}; i++) follow(i).catch((error) => state.faults.push(String(error)));
globalThis.state = state;
`;

async function programOfPage(): Promise<string> {
  const name = join(REPO_ROOT, 'src/client/page.js');
  const bundle = await rolldown({
    input: name,
    platform: 'browser',
    plugins: [
      { name: 'page', load: (id) => (id === name ? PROGRAM : null), resolveId: (id) => (id === name ? id : null) },
    ],
  });
  const { output } = await bundle.generate({ format: 'iife' });
  return output[0].code;
}

test('500 streams on one connection of a browser outlive the node that is killed', async (t) => {
  const missing = chromiumMissing();
  if (missing !== undefined) return t.skip(missing);
  const html = `<!doctype html><title>followers</title><script type="module">${await programOfPage()}</script>`;
  const address = await servePage(t, html);
  const browser = await startChromium();
  t.after(() => browser.close());
  await withCluster({ process: true, groups: 4 }, async (cluster) => {
    const urls = cluster.ids.map((id) => cluster.node(id).url);
    const client = connect(urls);
    t.after(() => client.close());
    const streams = Array.from({ length: STREAMS }, (_, i) => client.stream('b', `s${i}`, TEXT));
    await Promise.all(streams.map((stream) => stream.create(TEXT)));
    const { page, complaints } = await visit(browser, address);
    const sockets: string[] = [];
    page.on('websocket', (socket) => void sockets.push(new URL(socket.url()).port));
    // A change of the fragment alone loads nothing.
    await page.goto(`${address}#${encodeURIComponent(JSON.stringify(urls))}`);
    await page.reload();
    const reach = async (bytes: number): Promise<void> => {
      await page.waitForFunction((most) => {
        const { state } = globalThis as unknown as { state: { bytes: number[]; faults: string[] } };
        return state.faults.length > 0 || state.bytes.every((one) => one >= most);
      }, bytes);
    };
    await Promise.all(streams.map(async (stream) => await stream.append('one;')));
    await reach(4);
    assert.equal(sockets.length, 1, 'one connection');
    const killed = cluster.ids.find((id) => String(cluster.node(id).port) === sockets[0]);
    assert(killed !== undefined);
    const during = streams.map(async (stream) => await stream.append('two;'));
    await cluster.kill(killed);
    await Promise.all(during);
    await reach(8);
    await Promise.all(streams.map(async (stream) => await stream.close('three;')));
    await reach(14);
    await page.waitForFunction(() => {
      const { state } = globalThis as unknown as { state: { ended: number; faults: string[] } };
      return state.faults.length > 0 || state.ended === 500;
    });
    const faults = await page.evaluate(() => (globalThis as unknown as { state: { faults: string[] } }).state.faults);
    assert.deepEqual(faults, []);
    const strange = complaints.filter(
      (one) => !urls.some((url) => one.startsWith(url)) && !/ERR_CONNECTION_REFUSED/.test(one),
    );
    assert.deepEqual(strange, []);
  });
});
