/**
 * `npm run client-suites -- --repository DIR [--client ts|python] [--verbose]`: the official client suites against
 * Millrace. DIR is a checkout of the protocol's repository (github.com/durable-streams/durable-streams), which is not
 * on npm; nothing is written there. The suite runs in a temporary folder, with Millrace in place of its reference
 * server.
 *
 * A case that fails must stand in test/clients/exceptions.txt, with its reason; one that stands there and passes fails
 * the run.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const STAND_IN = fileURLToPath(new URL('../test/clients/stand-in.js', import.meta.url));
const EXCEPTIONS = join(ROOT, 'test', 'clients', 'exceptions.txt');
/** Imports of the suite; the client under test is the published one. */
const PACKAGES = ['tsx@4.23.15', 'fast-check@4.10.2', 'yaml@2.9.1', '@durable-streams/client@0.2.7'];
const CLIENTS = ['ts', 'python'] as const;
const EXIT_USAGE = 2;
/** 269 cases take two minutes. */
const RUN_TIMEOUT_MS = 20 * 60_000;

type Client = (typeof CLIENTS)[number];

interface Options {
  readonly repository: string;
  readonly clients: readonly Client[];
  readonly verbose: boolean;
}

function readOptions(): Options | string {
  const { values } = parseArgs({
    options: { repository: { type: 'string' }, client: { type: 'string' }, verbose: { type: 'boolean' } },
  });
  const repository = resolve(values.repository ?? '.');
  if (!existsSync(join(repository, 'packages', 'client-conformance-tests', 'src', 'cli.ts')))
    return '--repository DIR: expected a checkout of github.com/durable-streams/durable-streams';
  const client = CLIENTS.find((one) => one === values.client);
  if (values.client !== undefined && client === undefined) return `--client ${values.client}: expected ts or python`;
  return { repository, clients: client === undefined ? CLIENTS : [client], verbose: values.verbose === true };
}

/** The suite beside the packages that it imports, and our server under the name of its reference server. */
function prepare(repository: string, folder: string): string {
  writeFileSync(join(folder, 'package.json'), '{"type":"module","private":true}');
  run('npm', ['install', '--no-audit', '--no-fund', ...PACKAGES], folder, 'inherit');
  const server = join(folder, 'node_modules', '@durable-streams', 'server');
  mkdirSync(server, { recursive: true });
  writeFileSync(
    join(server, 'package.json'),
    '{"name":"@durable-streams/server","version":"0.0.0","type":"module","exports":"./index.js"}',
  );
  writeFileSync(join(server, 'index.js'), `export { DurableStreamTestServer } from ${JSON.stringify(STAND_IN)};\n`);
  const suite = join(folder, 'suite');
  cpSync(join(repository, 'packages', 'client-conformance-tests'), suite, { recursive: true });
  return suite;
}

/** How the suite starts the client under test. */
function adapterOf(client: Client, repository: string, folder: string): string {
  if (client === 'ts') return 'ts';
  const python = join(repository, 'packages', 'client-py');
  const script = join(folder, 'python-adapter.sh');
  // Python's own search path: the client needs httpx (Debian: python3-httpx).
  const lines = ['#!/bin/sh', `PYTHONPATH=${python}/src exec /usr/bin/python3 -B ${python}/conformance_adapter.py`, ''];
  writeFileSync(script, lines.join('\n'), { mode: 0o755 });
  return script;
}

function run(command: string, args: readonly string[], cwd: string, stdout: 'inherit' | 'pipe'): string {
  const result = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', stdout, 'inherit'],
    timeout: RUN_TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  });
  return result.stdout ?? '';
}

/** Names of cases that are expected to fail with a client. */
function exceptionsOf(client: Client): Set<string> {
  const lines = readFileSync(EXCEPTIONS, 'utf8').split('\n');
  const own = lines.map((line) => line.split('\t')).filter(([name]) => name === client);
  return new Set(own.map(([, test]) => test ?? ''));
}

/** Prints the result; the number of surprises. */
function judge(client: Client, output: string): number {
  const failed = [...output.matchAll(/^ +✗ (.*?) \(/gm)].map((match) => match[1] ?? '');
  const passed = [...output.matchAll(/^ +✓ (.*?) \(\d+ms\)$/gm)].map((match) => match[1] ?? '');
  const skipped = [...output.matchAll(/^ +○ /gm)].length;
  const expected = exceptionsOf(client);
  const surprises = [
    ...failed.filter((name) => !expected.has(name)).map((name) => `fails: ${name}`),
    ...passed.filter((name) => expected.has(name)).map((name) => `passes, but is an exception: ${name}`),
    ...(passed.length === 0 ? ['no case ran'] : []),
  ];
  process.stdout.write(
    `${client}: ${passed.length} passed, ${failed.length} failed, ${skipped} skipped by the client\n`,
  );
  for (const surprise of surprises) process.stdout.write(`  ${surprise}\n`);
  return surprises.length;
}

function main(): number {
  const options = readOptions();
  if (typeof options === 'string') {
    process.stderr.write(`client-suites: ${options}\n`);
    return EXIT_USAGE;
  }
  const folder = mkdtempSync(join(tmpdir(), 'millrace-clients-'));
  try {
    const suite = prepare(options.repository, folder);
    let surprises = 0;
    for (const client of options.clients) {
      const adapter = adapterOf(client, options.repository, folder);
      const output = run('npx', ['tsx', 'src/cli.ts', '--run', adapter], suite, 'pipe');
      if (options.verbose) process.stdout.write(output);
      surprises += judge(client, output);
    }
    return surprises === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exitCode = main();
