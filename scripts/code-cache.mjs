/**
 * Part of the build: lets a node serve and the tool print its help, so that V8's code of both lies beside their bundles
 * (load.cjs). A build on a host where that fails is slower to start, and nothing else.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const BUNDLES = join(ROOT, 'dist/bundle');
const TIMEOUT_MS = 30_000;

const run = (...args) =>
  spawn(process.execPath, ['--require', join(ROOT, 'scripts/write-code-cache.cjs'), ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });

const hasCaches = (...names) => {
  const files = readdirSync(BUNDLES).filter((file) => file.endsWith('.cache'));
  return names.every((name) => files.some((file) => file.startsWith(`${name}-`)));
};

async function serve(data) {
  const listen = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--cores', '1', '--groups', '1'];
  const node = run(join(BUNDLES, 'start-main.cjs'), '--data', data, ...listen);
  const ended = once(node, 'exit');
  const hasEnded = () => node.exitCode !== null || node.signalCode !== null;
  let greeting = '';
  node.stdout.on('data', (text) => (greeting += text));
  let used;
  for (const deadlineMs = Date.now() + TIMEOUT_MS; Date.now() < deadlineMs && !hasEnded();) {
    await delay(50);
    if (hasCaches('main', 'shard')) break;
    const [, clients, admin] = /clients +(\S+)\s+admin +(\S+)/.exec(greeting) ?? [];
    // Not awaited: fetch never settles when a connection ends before its request is sent, as those of a node that stops.
    if (admin !== undefined) used ??= use(clients, admin).catch(() => undefined);
  }
  node.kill();
  await ended;
}

/** One request of each common kind: V8 keeps code of what has run. */
async function use(clients, admin) {
  const stream = `${clients}/code/cache`;
  const text = { headers: { 'Content-Type': 'text/plain' }, body: 'text' };
  await fetch(stream, { method: 'PUT', ...text });
  await fetch(stream, { method: 'POST', ...text });
  await fetch(stream);
  await fetch(`${admin}/__svc/metrics`);
}

const data = mkdtempSync(join(tmpdir(), 'millrace-build-'));
try {
  const help = run(join(BUNDLES, 'start-ctl.cjs'), '--help');
  help.stdout.resume();
  await Promise.all([serve(data), once(help, 'exit')]);
} finally {
  rmSync(data, { recursive: true });
}
if (!hasCaches('main', 'shard', 'ctl'))
  process.stderr.write('millrace: built without code caches: starts take longer\n');
