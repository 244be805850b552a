// The console with tokens of operators in a real browser: it offers what the role may do, keeps the token in its tab, out of
// every address, and forgets one that the node refuses.
import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { OperatorRole } from '../../src/base/scopes.ts';
import { chromiumMissing, startChromium, visit } from '../support/chromium.ts';
import { requestOnce } from '../support/raw-client.ts';
import { bearer, textOf, withRole } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';

const IDS = { watcher: 'observe', runner: 'operate', breaker: 'destroy' } as const;
/** Buttons that each role finds on the pages of the cluster, a bucket and a stream. */
const OFFERED: Readonly<Record<OperatorRole, readonly string[]>> = {
  observe: [],
  operate: ['Flush', 'Drain'],
  destroy: ['Flush', 'Close', 'Delete', 'Purge bucket', 'Drain'],
};
const ACTIONS = OFFERED.destroy;

describe('the console with tokens of operators', { skip: chromiumMissing() ?? false }, () => {
  const folder = temporaryFolder('console-roles');
  const file = join(folder, 'admin-tokens.toml');
  const server = new TestServer({ process: true, http: `admin_tokens_file = "${file}"` });
  let browser: Browser;
  let origin = '';

  const write = (revoked: readonly string[]): void => {
    const entries = Object.entries(IDS).map(
      ([id, role]) => `[[tokens]]\nid = "${id}"\nsha256 = "${withRole(id, role).sha256}"\nrole = "${role}"\n`,
    );
    writeFileSync(`${file}.new`, `revoked = ${JSON.stringify(revoked)}\n${entries.join('')}`);
    renameSync(`${file}.new`, file);
  };

  before(async () => {
    write([]);
    await server.start();
    origin = `http://127.0.0.1:${server.adminPort}`;
    const headers = { ...bearer('breaker'), 'Content-Type': 'text/plain' };
    const made = await requestOnce(server.adminPort, 'PUT', '/__svc/streams/demo/log', headers, 'a line');
    assert.equal(made.status, 201);
    browser = await startChromium();
  });

  after(async () => {
    await browser?.close();
    await server.dispose();
    removeFolder(folder);
  });

  async function open(id: string): Promise<{ readonly page: Page; readonly complaints: string[] }> {
    const visited = await visit(browser, `${origin}/`);
    await visited.page.getByLabel('Admin token').fill(textOf(id));
    await visited.page.keyboard.press('Enter');
    await visited.page.getByRole('row', { name: /node 1 .* ok/ }).waitFor();
    return visited;
  }

  /** Labels of the actions on the pages of the cluster, the bucket and the stream. */
  async function offered(page: Page): Promise<string[]> {
    const found: string[] = [];
    for (const [view, heading] of [
      ['cluster', 'Cluster'],
      ['streams/demo', 'Streams of demo'],
      ['streams/demo/log', 'demo/log'],
    ] as const) {
      await page.goto(`${origin}/#/${view}`);
      await page.getByRole('heading', { name: heading, exact: true }).waitFor();
      if (view === 'streams/demo/log') await page.getByText('Hot and cold').waitFor();
      found.push(...(await page.getByRole('button').allInnerTexts()));
    }
    return found;
  }

  for (const [id, role] of Object.entries(IDS)) {
    it(`${role}: ${OFFERED[role].join(', ') || 'no action'}`, async () => {
      const { page, complaints } = await open(id);
      const asked: string[] = [];
      page.on('request', (request) => asked.push(request.url()));
      // The role comes with the first round; what it allows is there from then on.
      if (role === 'destroy') await page.getByRole('button', { name: 'Drain' }).waitFor();
      else await page.getByText(`role: ${role}`).waitFor();
      const buttons = await offered(page);
      for (const label of ACTIONS) {
        assert.equal(buttons.includes(label), OFFERED[role].includes(label), `${label} in ${buttons.join()}`);
      }
      assert.equal(await page.getByText('Append', { exact: true }).count(), role === 'destroy' ? 1 : 0);
      const lines = page.getByRole('list', { name: 'Lines' });
      if (role === 'observe') await page.getByText('take a token with the role operate').waitFor();
      else await lines.getByText('a line').waitFor();
      await page.goto(`${origin}/#/streams/demo`);
      await page.getByRole('heading', { name: 'Streams of demo' }).waitFor();
      assert.equal(await page.getByText('Create a stream').count(), role === 'observe' ? 0 : 1);
      // The page asks nothing that it may not have, and shows no address with the token.
      assert(!page.url().includes(textOf(id)) && asked.every((url) => !url.includes(textOf(id))));
      assert.equal(await page.evaluate('localStorage.length'), 0);
      assert.equal(await page.evaluate('document.cookie'), '');
      assert.deepEqual(complaints, []);
      // Another tab begins without it.
      const tab = await page.context().newPage();
      await tab.goto(`${origin}/`);
      await tab.getByText('the node asks for an admin token').waitFor();
      await page.context().close();
    });
  }

  it('a token that is revoked while the page is open is forgotten', async () => {
    const { page } = await open('runner');
    assert.equal(await page.evaluate('sessionStorage.length'), 1);
    write(['runner']);
    assert.equal((await server.hangUp())['msg'], 'reloaded');
    await page.getByText('the node does not take this admin token').waitFor();
    assert.equal(await page.evaluate('sessionStorage.length'), 0);
    await page.getByLabel('Admin token').fill(textOf('watcher'));
    await page.keyboard.press('Enter');
    await page.getByText('role: observe').waitFor();
    await page.context().close();
  });
});
