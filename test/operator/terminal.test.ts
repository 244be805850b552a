// The tool as a person sees it: under a real pseudo-terminal, in windows of several sizes, until Ctrl-C.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { CTL_ENTRY, clusterFileOf } from '../support/ctl.ts';
import { Terminal, scriptMissing } from '../support/terminal.ts';

const skip = scriptMissing() ?? false;
const GROUPS = 16;

describe('millracectl on a terminal', { skip }, () => {
  let server: Server;
  let config = '';
  let leader: number | null = 1;
  let looks = 0;

  before(async () => {
    server = createServer((_, response) => {
      looks++;
      const groups = Array.from({ length: GROUPS }, (__, id) => ({
        ...{ raft_group_id: id, leader, current_term: looks, committed_index: 9, last_applied: 9, voter_ids: [1] },
      }));
      response.end(JSON.stringify({ node_id: 1, raft_groups: groups, uptime_ms: 1000 }));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    config = clusterFileOf({ adminPort: port });
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const start = (columns: number, rows: number, verb: string, ...flags: string[]): Terminal =>
    new Terminal([process.execPath, CTL_ENTRY, verb, '--config', config, ...flags], columns, rows);

  test('--watch stays in its place, follows the window, and ends below itself', async () => {
    leader = 1;
    const terminal = start(130, 40, 'status', '--watch', '--interval-secs', '0.05');
    const wide = await terminal.shows(/leaders=\{1: 16\}/);
    assert.match(wide, /^\S+Z {3}Ctrl-C ends\n\nnode +host .* +memory +up\n1 +127\.0\.0\.1 +ok +16 /m);
    leader = null;
    const changed = await terminal.shows(/groups 0, 1, 2, 3, 4 and 11 more have no leader: writes wait/);
    assert.equal(changed.match(/Ctrl-C ends/g)?.length, 1, 'one table, not two');
    assert.doesNotMatch(changed, /leaders=\{1/);
    terminal.resize(40, 40);
    const narrow = await terminal.shows(/not shown in so few columns[^]*writes wait/);
    assert.match(narrow, /^groups 0, 1, 2, 3, 4 and 11 more have\n {2}no leader: writes wait$/m);
    terminal.resize(40, 8);
    await terminal.shows(/^… \d more lines$/m);
    const atFirst = looks;
    await terminal.shows(/./);
    while (looks < atFirst + 3) await once(server, 'request');
    terminal.type('\u0003');
    const lines = await terminal.lastLines();
    assert.equal(lines.at(-1), 'exit 0', terminal.text);
    assert.match(lines.at(-2) as string, /^… \d more lines(\^C)?$/, 'what follows begins on a line of its own');
  });

  test('the bar is one line that goes away, also by Ctrl-C and in a narrow window', async () => {
    leader = null;
    const terminal = start(60, 20, 'wait-ready', '--expected-groups', '16', '--poll-interval-secs', '0.05');
    await terminal.shows(/^\[ +\] 0\/1 nodes ready; node 1 knows .*…$/m);
    terminal.resize(30, 20);
    await terminal.shows(/^\[ {8}\] 0\/1 nodes ready…$/m);
    terminal.type('\u0003');
    const lines = await terminal.lastLines();
    assert.deepEqual(lines.slice(-2), ['millracectl: interrupted', 'exit 2']);
    assert.doesNotMatch(lines.join('\n'), /0\/1 nodes ready…/);
  });

  test('the bar goes away when all is well, and a narrow table fits', async () => {
    leader = null;
    const terminal = start(70, 20, 'wait-ready', '--expected-groups', '16', '--poll-interval-secs', '0.05');
    await terminal.shows(/0\/1 nodes ready/);
    leader = 1;
    assert.deepEqual(await terminal.lastLines(), ['ready: 1 node(s), 16 groups each', 'exit 0']);
    const table = await start(40, 20, 'status').lastLines();
    assert.deepEqual(table.slice(0, 2), [
      'node  host       state  leads  lag  hot',
      '1     127.0.0.1  ok        16    0  0 B',
    ]);
  });
});
