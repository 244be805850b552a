// The console before what it would rather not see: nodes that hang, talk nonsense or freeze in the
// middle of an action, streams of any size and bytes, names that are code elsewhere. The page says so
// and goes on. One real node; stand-ins for the bad ones.
import assert from 'node:assert/strict';
import { type RequestListener, createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { LagWatch } from '../../src/console/model/lag.ts';
import { matrixOf } from '../../src/console/model/matrix.ts';
import { valuesOf } from '../../src/console/model/plots.ts';
import { type Sample, answered, nodesKnownTo, snapshotOf } from '../../src/console/model/samples.ts';
import { findings } from '../../src/nodes/findings.ts';
import { isObject } from '../../src/nodes/report.ts';
import { chromiumMissing, startChromium, visit } from '../support/chromium.ts';
import { type CtlRun, scratchFile, startCtl } from '../support/ctl.ts';
import { type Random, createRandom, seedFromEnvironment } from '../support/random.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { until } from '../support/until.ts';
import { WebhookReceiver } from '../support/webhook-receiver.ts';

const STRANGE = 3;
const TEXT = { 'Content-Type': 'text/plain' } as const;
const BYTES = { 'Content-Type': 'application/octet-stream' } as const;
const MIB = 1024 * 1024;
const BIG_APPENDS = 2;
const BIG_APPEND_BYTES = MIB;
/** No text, with a line's end in every 96 bytes: pages of ten thousand lines are not the subject. */
const NO_TEXT = Buffer.alloc(96, 0xfe).fill(Buffer.from([0, 0xff, 0xfe, 0x80, 0x0a, 0xc3]), 0, 6);
/** A page of bytes has 64 KiB, and is read again when the form changes. */
const SHOWN_BYTES_MAX = MIB;
/** More than two pages of the list. */
const STREAMS = 230;
const ANSWERS = IS_THOROUGH ? 1500 : 150;
/** Each is a stream of bucket `names`, and is code, a route or a path somewhere else. */
const NAMES = [
  'constructor',
  'hasOwnProperty',
  'a#?%/b',
  '<img src=x onerror=alert(1)>',
  '\u202Eabc',
  '🚀',
  'a b',
  '[',
];

describe('the console with bad input', { skip: chromiumMissing() ?? false }, () => {
  const cold = temporaryFolder('console-cold');
  const node = new TestServer({
    ...{ cores: 1, groups: 4 },
    toml: `[subscriptions]\nlocal_webhooks = true\n[storage.cold]\nbackend = "dir"\ndir = "${cold}"\nflush_interval = "1h"\n`,
  });
  const hanging = createTcpServer((socket) => socket.on('error', () => undefined));
  let says: RequestListener = (_, response) => void response.end('<html>nothing of ours</html>');
  const strange = createServer((request, response) => says(request, response));
  let browser: Browser;
  let console: CtlRun;
  let origin = '';
  /** One for all tests: each is a process of the browser and a program to compile. */
  let page: Page;
  let complaints: string[];

  before(async () => {
    await node.start();
    for (const server of [hanging, strange]) await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const ports = [node.adminPort, ...[hanging, strange].map((server) => (server.address() as AddressInfo).port)];
    const toml = ports
      .map((port, i) => `[[nodes]]\nid = ${i + 1}\nhost = "127.0.0.1"\nadmin_port = ${port}\n`)
      .join('');
    console = startCtl(['console', '--config', scratchFile('cluster.toml', toml), '--listen', '127.0.0.1:0']);
    await until(
      () => `the address of the console; now ${console.stdout} ${console.stderr}`,
      () => console.stdout.endsWith('\n'),
    );
    const address = /http:\S+/.exec(console.stdout)?.[0] ?? '';
    origin = new URL(address).origin;
    browser = await startChromium();
    ({ page, complaints } = await visit(browser, address));
  });

  after(async () => {
    await browser?.close();
    console?.interrupt();
    await console?.ended;
    strange.closeAllConnections();
    strange.close();
    hanging.close();
    await node.dispose();
    removeFolder(cold);
  });

  const lines = () => page.getByRole('list', { name: 'Lines' });

  it('a node that hangs and one that talks nonsense are named, and the others are shown', async () => {
    await page.goto(`${origin}/#/cluster`);
    await page.getByRole('row', { name: /node 1 .* ok/ }).waitFor();
    await page.getByRole('row', { name: /node 2 .* does not answer .*no answer within 5 s/ }).waitFor();
    await page.getByRole('row', { name: /node 3 .* does not answer .*not a node of this service/ }).waitFor();
    // The right shape, with nothing right in it.
    const metrics = await node.metrics();
    says = (_, response) => void response.end(JSON.stringify(turnedAround({ ...metrics, node_id: undefined })));
    await page.getByRole('row', { name: /node 3 .* does not answer .*answers as node undefined/ }).waitFor();
    says = (_, response) =>
      void response.end(JSON.stringify({ ...turnedAround(metrics), node_id: STRANGE, raft_groups: [] }));
    await page.getByRole('row', { name: /node 3 127\.0\.0\.1 (?!does not)/ }).waitFor();
    for (const view of ['Traffic', 'Subscriptions', 'Backups', 'Streams', 'Cluster']) {
      await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: view }).click();
      await page.getByRole('heading', { level: 1, name: view }).waitFor();
    }
    await page.getByRole('row', { name: /node 1 .* ok/ }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it('whatever a node answers, the page has a picture of it, and a bounded one', async () => {
    const metrics = await node.metrics();
    const random = createRandom(seedFromEnvironment());
    const nodes = [{ id: 1, host: 'a', isAsked: true }];
    const lag = new LagWatch();
    let before: Sample | undefined;
    for (let i = 0; i < ANSWERS; i++) {
      const told = `SEED=${random.seed}, answer ${i}`;
      const sample = answered(1, i * 2000, changed(metrics, random));
      const round = [sample];
      lag.add(round, i * 2000);
      const values = valuesOf(round, before === undefined ? undefined : [before]);
      const cells = matrixOf(nodes, round, lag).flatMap((row) => row.cells);
      const sentences = [...findings(nodes, snapshotOf(round)), ...lag.findings()];
      if (sample.report !== undefined) nodesKnownTo(sample.report, sample.metrics ?? {});
      assert(values.size < 3000 && cells.length <= 4096, `${told}: ${values.size} lines, ${cells.length} cells`);
      for (const { text } of sentences) assert(text.length < 5000, `${told}: ${text.length} characters`);
      before = sample;
    }
  });

  it('of a long stream only pages are read, and bytes that are no text are shown as hex', async () => {
    const body = Buffer.alloc(BIG_APPEND_BYTES, NO_TEXT);
    await node.client.create('/demo/big', BYTES);
    for (let i = 0; i < BIG_APPENDS; i++) await node.client.append('/demo/big', BYTES, body);
    let read = 0;
    page.on('requestfinished', (request) => {
      if (!request.url().includes('/demo/big')) return;
      // A page that closes meanwhile has no sizes any more.
      void request.sizes().then(
        (sizes) => (read += sizes.responseBodySize),
        () => undefined,
      );
    });
    await page.goto(`${origin}/#/streams/demo/big`);
    const end = (BIG_APPENDS * BIG_APPEND_BYTES).toLocaleString('en-US');
    await page.getByText(`to ${end} of ${end}`).waitFor();
    await lines().getByText('ff fe 80 0a c3').first().waitFor();
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByText(`Bytes 0 to 65,536 of ${end}`).waitFor();
    await page.getByRole('button', { name: 'Later', exact: true }).click();
    await page.getByText(`Bytes 65,536 to 131,072 of ${end}`).waitFor();
    await page.getByLabel('As', { exact: true }).selectOption('text');
    await lines().getByText('\uFFFD').first().waitFor();
    await page.getByRole('button', { name: 'Flush demo/big' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('millracectl flush-cold --bucket demo --stream big').waitFor();
    await dialog.locator('button[type=submit]').click();
    await dialog.getByText(/^Done\./).waitFor();
    await page.keyboard.press('Escape');
    await page.getByText(/MiB in the cold store/).waitFor();
    await until('what was read is counted', () => read > 64 * 1024);
    assert(read < SHOWN_BYTES_MAX, `${read} bytes were read`);
    assert.deepEqual(complaints, []);
  });

  it('a record of megabytes is cut, and those behind it are reached', async () => {
    const json = { 'Content-Type': 'application/json' };
    await node.client.create('/demo/records', json);
    await node.client.append('/demo/records', json, `["first","${'é'.repeat(2 * MIB)}","last"]`);
    await page.goto(`${origin}/#/streams/demo/records`);
    await lines().getByText('"first"').waitFor();
    await page.getByRole('button', { name: 'Later', exact: true }).click();
    await lines().getByText(/^"ééé/).first().waitFor();
    await page.getByText('This is longer than the page takes').waitFor();
    await page.getByRole('button', { name: 'Later', exact: true }).click();
    await lines().getByText('"last"').waitFor();
    assert.deepEqual(complaints, []);
  });

  it('names that are code, routes or paths elsewhere are names', async () => {
    for (const name of NAMES) await node.client.create(`/names/${encodeURIComponent(name)}`, TEXT, `I am ${name}`);
    for (const name of NAMES) {
      await page.goto(`${origin}/#/streams/names`);
      await page.getByRole('link', { name, exact: true }).click();
      await lines().getByText(`I am ${name}`).waitFor();
    }
    for (const name of ['__proto__', '%', '..']) {
      await page.goto(`${origin}/#/streams/${encodeURIComponent(name)}/${encodeURIComponent(name)}`);
      await page
        .getByText(/INVALID_NAME|there is no stream/)
        .first()
        .waitFor();
    }
    await page.goto(`${origin}/#/streams/%/%E0%A4%A`);
    await page.getByRole('heading', { level: 1, name: 'Cluster' }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it('a bucket of many streams is listed page by page, and a listing that is none is said', async () => {
    const names = Array.from({ length: STREAMS }, (_, i) => `s-${String(i).padStart(4, '0')}`);
    await Promise.all(names.map(async (name) => await node.client.create(`/many/${name}`, TEXT)));
    await page.goto(`${origin}/#/streams/many`);
    const listed = async (first: string, count: number): Promise<void> => {
      const links = page.getByRole('link', { name: /^s-\d/ });
      await until(`${count} streams from ${first} on`, async () => {
        return (await links.count()) === count && (await links.first().innerText()) === first;
      });
    };
    await listed('s-0000', 100);
    await page.getByRole('button', { name: 'Next page' }).click();
    await listed('s-0100', 100);
    await page.getByRole('button', { name: 'Next page' }).click();
    await listed('s-0200', STREAMS - 200);
    await page.getByRole('button', { name: 'Page before' }).click();
    await listed('s-0100', 100);
    await page.getByLabel('Prefix').fill('s-012');
    await listed('s-0120', 10);

    // Longer than the page takes, so its end is missing.
    says = (_, response) => void response.end(`{"streams":[${'{"stream_id":"x"},'.repeat(300_000)}`);
    await page.route('**/nodes/1/**/streams?*', async (route) => {
      await route.continue({ url: route.request().url().replace('/nodes/1/', `/nodes/${STRANGE}/`) });
    });
    await page.getByRole('button', { name: 'Look again' }).click();
    await page.getByText('its answer was cut').waitFor();
    await page.unrouteAll();
    says = (_, response) => void response.end();
    assert.deepEqual(complaints, []);
  });

  it('a receiver of webhooks that refuses is shown with what it said, and its delivery is repeated', async (t) => {
    const receiver = await WebhookReceiver.start(() => 500);
    t.after(async () => await receiver.close());
    await node.client.create('/hooks/log', TEXT, 'wake up');
    const wanted = { type: 'webhook', streams: ['hooks/log'], webhook: { url: receiver.url } };
    const json = { 'Content-Type': 'application/json' };
    await node.client.expect(201, 'PUT', '/v1/stream/__ds/subscriptions/failing', json, JSON.stringify(wanted));
    await node.client.append('/hooks/log', TEXT, 'more');
    await page.goto(`${origin}/#/subscriptions`);
    const row = page.getByRole('row', { name: /failing webhook .*failing/ });
    // The view may have been read before the delivery failed, and is not read again by itself.
    await until('the list has it', async () => {
      await page.getByRole('button', { name: 'Look again' }).click();
      return (await row.count()) === 1;
    });
    await page.getByText('One subscription fails').waitFor();
    await row.getByText(/500/).waitFor();
    // Refused still: with the next attempt by itself nothing would be left to deliver.
    await row.getByRole('button', { name: 'Deliver failing again' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.locator('button[type=submit]').click();
    await dialog.getByText('Done.').waitFor();
    receiver.answer = () => ({ done: true });
    await page.keyboard.press('Escape');
    await until('it is up to date', async () => {
      await page.getByRole('button', { name: 'Look again' }).click();
      return (await page.getByRole('row', { name: /failing webhook .*up to date/ }).count()) === 1;
    });
    assert.deepEqual(complaints, []);
  });

  it('of an action whose node vanishes under it, the page says that its outcome is not known', async () => {
    const metrics = await node.metrics();
    const answer = JSON.stringify({ ...metrics, node_id: STRANGE });
    says = (request, response) => void (request.method === 'GET' ? response.end(answer) : request.socket.destroy());
    await page.goto(`${origin}/#/cluster`);
    await page.getByRole('button', { name: `Drain node ${STRANGE}` }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').fill(`node ${STRANGE}`);
    await dialog.locator('button[type=submit]').click();
    await dialog.getByText(/502: node 3: .*Whether it was done is not known/).waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('row', { name: /node 1 .* ok/ }).waitFor();
    assert.deepEqual(complaints, []);
  });
});

type Json = Readonly<Record<string, unknown>>;

/** Every number is a text and every text a number, as deep as it goes. */
function turnedAround(value: Json): Json {
  return JSON.parse(
    JSON.stringify(value, (_, one: unknown) =>
      typeof one === 'number' ? 'many' : typeof one === 'string' ? -1e300 : one,
    ),
  ) as Json;
}

const STRANGE_VALUES: readonly unknown[] = [
  ...[null, true, -1, 0.5, 1e300, '', 'x'.repeat(100_000), '__proto__', [], {}, [[]], { __proto__: 1, length: -1 }],
  Array.from({ length: 20_000 }, (_, i) => i),
  Array.from({ length: 20_000 }, (_, i) => ({ raft_group_id: i, leader: i, voter_ids: [i], committed_index: i })),
];

/** A copy with one to four of its parts, wherever they are, made something else. */
function changed(value: Json, random: Random): Json {
  const copy = structuredClone(value) as Record<string, unknown>;
  for (let change = random.int(1, 4); change > 0; change--) {
    let at: Record<string, unknown> = copy;
    for (;;) {
      const names = Object.keys(at);
      if (names.length === 0) break;
      const name = random.pick(names);
      const member = at[name];
      if (isObject(member) || Array.isArray(member)) {
        if (random.chance(0.7)) {
          at = member as Record<string, unknown>;
          continue;
        }
      }
      at[name] = random.pick(STRANGE_VALUES);
      break;
    }
  }
  return copy;
}
