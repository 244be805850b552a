// The first sessions of README.md, executed: the blocks below "A first session" and "Three nodes in three minutes",
// line by line. A trailing comment that begins with three digits is the HTTP status that the line must give; any other
// comment on a line that asks something is the output it must print. The comment of a line that starts a server is for
// people only.
//
// One thing is changed: the data directory, so that a developer's own data stays untouched.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { readDocument } from '../support/documents.ts';
import { requestOnce } from '../support/raw-client.ts';
import { removeFolder, run, temporaryFolder, within, type Run } from '../support/server.ts';
import { Session } from './session.ts';
import { keepsPromise, parseSteps, shellBlocks } from './shell-block.ts';
import { PATIENCE_MS } from '../support/until.ts';

const README = readDocument('README.md');
const READY_POLL_MS = 20;
/** Where servers without flags listen; the README uses them because people do. */
const ADMIN_PORTS = { 'npm start': [4438], 'npm run cluster': [4438, 4448, 4458] } as const;
const CLIENT_PORTS = [4437, 4447, 4457];

function withDataDir(command: string, dataDir: string): string {
  if (/--data[= ]/.test(command)) return command.replace(/--data[= ]\S+/, `--data ${dataDir}`);
  return command.startsWith('npm ') && !command.includes(' -- ')
    ? `${command} -- --data ${dataDir}`
    : `${command} --data ${dataDir}`;
}

async function waitUntilReady(server: Run, adminPort: number): Promise<void> {
  const deadlineMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const status = await requestOnce(adminPort, 'GET', '/__svc/ready').then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) return;
    assert(server.child.exitCode === null, `the server of the session ended:\n${server.output()}`);
    assert(performance.now() < deadlineMs, `the server of the session is not ready:\n${server.output()}`);
    await delay(READY_POLL_MS);
  }
}

/** The cluster's script writes its files when all nodes are ready, then says so. */
async function waitUntilAnnounced(server: Run): Promise<void> {
  const deadlineMs = performance.now() + PATIENCE_MS;
  while (!server.output().includes('Ctrl-C stops')) {
    assert(performance.now() < deadlineMs, `the cluster says nothing:\n${server.output()}`);
    await delay(READY_POLL_MS);
  }
}

async function stop(server: Run): Promise<void> {
  // npm passes the signal on to the server it started.
  server.child.kill('SIGTERM');
  await within(server.exited, PATIENCE_MS, 'stopping a server of the session').catch((error: unknown) => {
    server.child.kill('SIGKILL');
    throw error;
  });
}

async function portsAreFree(): Promise<void> {
  for (const port of [...CLIENT_PORTS, ...ADMIN_PORTS['npm run cluster']]) {
    const isFree = await requestOnce(port, 'GET', '/').then(
      () => false,
      () => true,
    );
    assert(isFree, `something listens on 127.0.0.1:${port}; stop it, the session needs the default ports`);
  }
}

async function follow(heading: string): Promise<void> {
  const steps = parseSteps(shellBlocks(README, heading));
  assert(
    steps.some((step) => step.kind === 'server'),
    'a session must start a server',
  );
  assert(
    steps.some((step) => step.status !== undefined || step.output !== undefined),
    'a session must show results',
  );
  await portsAreFree();
  const scratch = temporaryFolder('readme');
  const dataDir = join(scratch, 'data');
  const session = new Session((command) => command.replaceAll('data/cluster/', `${dataDir}/`));
  const started: Run[] = [];
  try {
    for (const step of steps) {
      if (step.kind === 'server') {
        const server = run(['sh', '-c', `exec ${withDataDir(step.command, dataDir)}`]);
        started.push(server);
        const isCluster = step.command.startsWith('npm run cluster');
        for (const port of ADMIN_PORTS[isCluster ? 'npm run cluster' : 'npm start']) await waitUntilReady(server, port);
        if (isCluster) await waitUntilAnnounced(server);
      } else if (step.kind === 'background') {
        started.push(run(['sh', '-c', `exec ${step.command}`]));
      } else if (step.kind !== 'done') {
        await session.execute(step);
      }
    }
  } finally {
    for (const process of started.reverse()) await stop(process);
    removeFolder(scratch);
  }
}

for (const heading of ['## A first session', '## Three nodes in three minutes']) {
  test(`"${heading.slice(3)}" in README.md works as written`, async () => await follow(heading));
}

test('the reader of a block understands commands, comments and continuations', () => {
  const markdown = [
    '# X',
    '## Session',
    'words',
    '```sh',
    'npm ci && npm run build   # once',
    'npm start -- --data ./demo-data   # one node',
    'curl -X PUT localhost:4437/demo/log \\',
    '  -H "X: a # \\"b"              # 201: made',
    'curl "localhost:4437/demo/log?offset=-1"   # hi',
    'curl -N "localhost:4437/x?live=sse" &',
    'TOKEN=$(curl localhost:4437/token)',
    '```',
  ].join('\n');
  const steps = parseSteps(shellBlocks(markdown, '## Session'));
  assert.deepEqual(
    steps.map((step) => step.kind),
    ['done', 'server', 'ask', 'ask', 'background', 'variable'],
  );
  assert.equal(steps[2]?.status, 201);
  assert.match(steps[2]?.command ?? '', /b"$/);
  assert.equal(steps[3]?.output, 'hi');
  assert.equal(withDataDir('npm start', '/t'), 'npm start -- --data /t');
  assert.equal(withDataDir('npm start -- --data ./x --cores 1', '/t'), 'npm start -- --data /t --cores 1');
  assert(keepsPromise('[{"type":"wake","id":7}]\n', '[{"type":"wake",...}]'));
  assert(!keepsPromise('[{"type":"wake"}]', '[{"type":"data"}]'));
  assert.throws(() => shellBlocks('# nothing', '## Session'));
});
