// The quick start of README.md, executed: the first ```sh block after "## Quick start", line by line. A trailing comment
// that begins with three digits is the HTTP status that the line must give; any other comment on a line that asks
// something is the output it must print. The comment of the line that starts the server is for people only.
//
// One thing is changed: the data directory, so that a developer's own data stays untouched.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { REPO_ROOT } from '../support/paths.ts';
import { requestOnce } from '../support/raw-client.ts';
import { removeFolder, run, temporaryFolder, within, type Run } from '../support/server.ts';
import { parseSteps, shellBlock, type Step } from './shell-block.ts';

const READY_TIMEOUT_MS = 60_000;
const STEP_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 30_000;
const READY_POLL_MS = 20;
/** Where a server without flags listens; the README uses it because people do. */
const DEFAULT_ADMIN_PORT = 4438;
const DEFAULT_PORT = 4437;

function withDataDir(command: string, dataDir: string): string {
  if (/--data[= ]/.test(command)) return command.replace(/--data[= ]\S+/, `--data ${dataDir}`);
  return command.startsWith('npm start') && !command.includes(' -- ')
    ? `${command} -- --data ${dataDir}`
    : `${command} --data ${dataDir}`;
}

async function waitUntilReady(server: Run): Promise<void> {
  const deadlineMs = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    const status = await requestOnce(DEFAULT_ADMIN_PORT, 'GET', '/__svc/ready').then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) return;
    assert(server.child.exitCode === null, `the server of the quick start ended:\n${server.output()}`);
    assert(performance.now() < deadlineMs, `the server of the quick start is not ready:\n${server.output()}`);
    await delay(READY_POLL_MS);
  }
}

async function execute(step: Step): Promise<void> {
  const curlFlags = step.status === undefined ? '-sS' : "-sS -o /dev/null -w '%{http_code}'";
  const command = step.command.replace(/^curl\b/, `curl ${curlFlags}`);
  const attempt = run(['sh', '-c', command]);
  const code = await within(attempt.exited, STEP_TIMEOUT_MS, step.command);
  assert.equal(code, 0, `${step.command}: exit code ${code}\n${attempt.output()}`);
  if (step.status !== undefined) assert.equal(Number(attempt.output().trim()), step.status, step.command);
  if (step.output !== undefined) assert.equal(attempt.output().trim(), step.output, step.command);
}

async function stop(server: Run): Promise<void> {
  // npm passes the signal on to the server it started.
  server.child.kill('SIGTERM');
  await within(server.exited, STOP_TIMEOUT_MS, 'stopping the server of the quick start').catch((error: unknown) => {
    server.child.kill('SIGKILL');
    throw error;
  });
}

test('the quick start of README.md works as written', async () => {
  const file = join(REPO_ROOT, 'README.md');
  assert(existsSync(file), 'README.md is missing');
  const steps = parseSteps(shellBlock(readFileSync(file, 'utf8'), '## Quick start'));
  assert(
    steps.some((step) => step.kind === 'server'),
    'the quick start must start a server',
  );
  assert(
    steps.some((step) => step.status !== undefined || step.output !== undefined),
    'the quick start must show results',
  );
  for (const port of [DEFAULT_PORT, DEFAULT_ADMIN_PORT]) {
    const isFree = await requestOnce(port, 'GET', '/').then(
      () => false,
      () => true,
    );
    assert(isFree, `something listens on 127.0.0.1:${port}; stop it, the quick start needs the default ports`);
  }
  const scratch = temporaryFolder('readme');
  const started: Run[] = [];
  try {
    for (const step of steps) {
      if (step.kind === 'server') {
        const server = run(['sh', '-c', `exec ${withDataDir(step.command, join(scratch, 'data'))}`]);
        started.push(server);
        await waitUntilReady(server);
      } else if (step.kind === 'background') {
        started.push(run(['sh', '-c', `exec ${step.command}`]));
      } else if (step.kind === 'ask') {
        await execute(step);
      }
    }
  } finally {
    for (const process of started.reverse()) await stop(process);
    removeFolder(scratch);
  }
});

test('the reader of the block understands commands, comments and continuations', () => {
  const markdown = [
    '# X',
    '## Quick start',
    'words',
    '```sh',
    'npm ci && npm run build   # once',
    'npm start -- --data ./demo-data   # one node',
    'curl -X PUT localhost:4437/demo/log \\',
    '  -H "X: a # b"                # 201: made',
    'curl "localhost:4437/demo/log?offset=-1"   # hi',
    'curl -N "localhost:4437/x?live=sse" &',
    '```',
  ].join('\n');
  const steps = parseSteps(shellBlock(markdown, '## Quick start'));
  assert.deepEqual(
    steps.map((step) => step.kind),
    ['done', 'server', 'ask', 'ask', 'background'],
  );
  assert.equal(steps[2]?.status, 201);
  assert.match(steps[2]?.command ?? '', /"X: a # b"$/);
  assert.equal(steps[3]?.output, 'hi');
  assert.equal(withDataDir('npm start', '/t'), 'npm start -- --data /t');
  assert.equal(withDataDir('npm start -- --data ./x --cores 1', '/t'), 'npm start -- --data /t --cores 1');
  assert.throws(() => shellBlock('# nothing', '## Quick start'));
});
