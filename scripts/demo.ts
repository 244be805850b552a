/**
 * `npm run demo`: a live tail of one stream in this terminal, while this program (or you, typing) appends to it.
 * Uses the server on 127.0.0.1:4437 when there is one, otherwise starts its own on a temporary folder.
 * The HTTP below is all that a client needs: PUT creates, POST appends, GET with live=sse follows.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const RUNNING_SERVER = 'http://127.0.0.1:4437';
const SERVER_ENTRY = fileURLToPath(new URL('../main.js', import.meta.url));
/** Without a terminal to type in, the demo appends this many lines and ends. */
const GENERATED_LINES = 5;
const GENERATED_PAUSE_MS = 400;
/** It takes a moment; on a busy machine many. */
const START_TIMEOUT_MS = 60_000;
/** Time for the last line to come back before the tail is closed. */
const LAST_LINE_TIMEOUT_MS = 5000;
/** The demo ends by itself, also when it is forgotten in a terminal. */
const DEMO_TIMEOUT_MS = 10 * 60_000;

interface Server {
  readonly base: string;
  readonly stop: () => Promise<void>;
}

async function isUp(base: string): Promise<boolean> {
  try {
    await fetch(`${base}/v1/stream/demo-probe`, { method: 'HEAD', signal: AbortSignal.timeout(1000) });
    return true;
  } catch {
    return false;
  }
}

async function findServer(): Promise<Server> {
  if (await isUp(RUNNING_SERVER)) return { base: RUNNING_SERVER, stop: async () => {} };
  const folder = mkdtempSync(join(tmpdir(), 'millrace-demo-'));
  const [port, adminPort] = await freePorts();
  const base = `http://127.0.0.1:${port}`;
  const flags = ['--data', folder, '--listen', `127.0.0.1:${port}`, '--admin-listen', `127.0.0.1:${adminPort}`];
  const child = spawn(process.execPath, [SERVER_ENTRY, ...flags], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { MILLRACE_LOG: 'warn', ...process.env },
    // Its own process group: Ctrl-C ends the demo, and the demo ends the server.
    detached: true,
  });
  const stop = async (): Promise<void> => {
    await ended(child);
    rmSync(folder, { recursive: true, force: true });
  };
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!(await isUp(base))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await stop();
      throw new Error(`the server did not start on ${base}`);
    }
    await sleep(50);
  }
  return { base, stop };
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once('exit', () => resolve());
    child.kill('SIGTERM');
  });
}

/** Both at once, so that they differ. */
async function freePorts(): Promise<readonly [number, number]> {
  const servers = [createServer(), createServer()];
  const ports: number[] = [];
  for (const server of servers) {
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    const bound = server.address();
    if (bound === null || typeof bound === 'string') throw new Error('no TCP port');
    ports.push(bound.port);
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return [ports[0] ?? 0, ports[1] ?? 0];
}

async function request(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (!response.ok) throw new Error(`${init.method} ${url}: ${response.status} ${await response.text()}`);
  return response;
}

/** Prints every event of the stream until `signal`; comes back where it was when the server ends the answer. */
async function follow(stream: string, signal: AbortSignal, onLine: (line: string) => void): Promise<void> {
  let offset = '-1';
  while (!signal.aborted) {
    const response = await request(`${stream}?offset=${offset}&live=sse`, { method: 'GET', signal });
    if (response.body === null) return;
    let text = '';
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const events = (text + chunk).split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) offset = handleEvent(event, onLine) ?? offset;
    }
  }
}

/** Data goes to `onLine`; answers the offset to come back with when the event is a control event. */
function handleEvent(event: string, onLine: (line: string) => void): string | undefined {
  const lines = event.split('\n');
  const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.replace(/^data: ?/, ''));
  if (!lines.includes('event: control')) {
    for (const line of data) if (line !== '') onLine(line);
    return undefined;
  }
  return (JSON.parse(data.join('\n')) as { streamNextOffset?: string }).streamNextOffset;
}

async function* linesToAppend(signal: AbortSignal): AsyncGenerator<string> {
  if (process.stdin.isTTY) {
    process.stdout.write('Type lines to append them; Ctrl-C or Ctrl-D ends.\n\n');
    yield* createInterface({ input: process.stdin, signal });
    return;
  }
  for (let i = 1; i <= GENERATED_LINES; i++) {
    yield `line ${i} of ${GENERATED_LINES}, sent at ${new Date().toISOString()}`;
    await sleep(GENERATED_PAUSE_MS);
  }
}

async function main(): Promise<void> {
  const server = await findServer();
  const ending = new AbortController();
  const end = (): void => ending.abort();
  // More than once: a Ctrl-C under npm arrives from the terminal and from npm.
  process.on('SIGINT', end);
  process.on('SIGTERM', end);
  const timer = setTimeout(end, DEMO_TIMEOUT_MS);
  const stream = `${server.base}/v1/stream/demo/${Date.now()}`;
  const waiting = new Map<string, () => void>();
  try {
    await request(stream, { method: 'PUT', headers: { 'content-type': 'text/plain' } });
    process.stdout.write(`Following ${stream}\nAppend from another terminal too:\n`);
    process.stdout.write(`  curl -X POST ${stream} -H 'content-type: text/plain' --data $'hello\\n'\n\n`);
    const tail = follow(stream, ending.signal, (line) => {
      process.stdout.write(`  live  ${line}\n`);
      waiting.get(line)?.();
    });
    const failures: Error[] = [];
    const followed = tail.catch((error: unknown) => {
      // After the end, an error is only how a cut connection looks.
      if (!ending.signal.aborted) failures.push(error instanceof Error ? error : new Error(String(error)));
      end();
    });
    for await (const line of linesToAppend(ending.signal)) {
      if (ending.signal.aborted) break;
      const seen = new Promise<void>((resolve) => waiting.set(line, resolve));
      const startMs = performance.now();
      await request(stream, { method: 'POST', headers: { 'content-type': 'text/plain' }, body: `${line}\n` });
      process.stdout.write(`append  on disk after ${(performance.now() - startMs).toFixed(1)} ms\n`);
      await Promise.race([seen, followed, sleep(LAST_LINE_TIMEOUT_MS, undefined, { ref: false })]);
      waiting.delete(line);
    }
    end();
    await followed;
    for (const failure of failures) throw failure;
  } finally {
    clearTimeout(timer);
    await server.stop();
  }
}

await main();
