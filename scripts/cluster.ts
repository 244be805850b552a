/**
 * `npm run cluster`: three nodes on this machine that form one cluster, for a first try. Addresses are printed; Ctrl-C
 * stops all nodes together. The data stays in ./data/cluster (or --data DIR), so the next start goes on where this one
 * ended.
 *
 *   npm run cluster -- [--data DIR] [--port FIRST] [--verbose]
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const SERVER_ENTRY = fileURLToPath(new URL('../main.js', import.meta.url));
const NODE_COUNT = 3;
/** Clients on 4437, 4447 and 4457; operators one above; links between the nodes two above. */
const FIRST_PORT = 4437;
const PORTS_PER_NODE = 10;
const FIRST_PORT_MAX = 65_535 - PORTS_PER_NODE * NODE_COUNT;
/** Three nodes share the host's cores. */
const CORES = 1;
const READY_TIMEOUT_MS = 60_000;
const POLL_MS = 100;
/** Longer than a node gives its open requests. */
const STOP_TIMEOUT_MS = 15_000;
const EXIT_USAGE = 2;

interface Node {
  readonly id: number;
  readonly client: string;
  readonly admin: string;
  readonly child: ChildProcess;
  /** Exit code or signal. */
  readonly ended: Promise<number | string>;
}

interface Options {
  readonly directory: string;
  readonly firstPort: number;
  readonly verbose: boolean;
}

type Plane = 'client' | 'admin' | 'cluster';

function address({ firstPort }: Options, id: number, plane: Plane): string {
  const offset = plane === 'client' ? 0 : plane === 'admin' ? 1 : 2;
  return `127.0.0.1:${firstPort + PORTS_PER_NODE * (id - 1) + offset}`;
}

/** Tells a later start that the cluster exists: from then on an empty directory means that a disk was lost. */
const formedFile = (directory: string): string => join(directory, 'formed');

const configFile = ({ directory }: Options, id: number): string => join(directory, `node-${id}.toml`);

/** For `millracectl`. */
function writeClusterFile(options: Options): string {
  const file = join(options.directory, 'cluster.toml');
  const nodes = Array.from({ length: NODE_COUNT }, (_, i) => [
    '[[nodes]]',
    `id = ${i + 1}`,
    `admin_url = "http://${address(options, i + 1, 'admin')}"`,
    `http_url = "http://${address(options, i + 1, 'client')}"`,
    '',
  ]);
  writeFileSync(file, nodes.flat().join('\n'));
  return file;
}

/** The file is rewritten at each start; edit a copy for your own cluster. */
function writeConfig(options: Options, id: number): string {
  const { directory } = options;
  const peers = Array.from(
    { length: NODE_COUNT },
    (_, i) => `  { node_id = ${i + 1}, addr = "${address(options, i + 1, 'cluster')}" },`,
  );
  const file = configFile(options, id);
  const lines = [
    `# Node ${id} of the cluster that \`npm run cluster\` starts.`,
    '[server]',
    `listen = "${address(options, id, 'client')}"`,
    `admin_listen = "${address(options, id, 'admin')}"`,
    `cluster_listen = "${address(options, id, 'cluster')}"`,
    '# Where the client library sends appends to streams that this node leads.',
    `public_url = "http://${address(options, id, 'client')}"`,
    '',
    '[storage]',
    `data_dir = ${JSON.stringify(join(directory, `node-${id}`))}`,
    '',
    '[runtime]',
    `core_count = ${CORES}`,
    '',
    '[cluster]',
    'name = "local"',
    '',
    '[raft]',
    `node_id = ${id}`,
    '# True: an empty directory may vote at once. Right for the first start of all nodes, wrong for one that lost its disk.',
    `init_membership = ${!existsSync(formedFile(directory))}`,
    'peers = [',
    ...peers,
    ']',
    '',
  ];
  writeFileSync(file, lines.join('\n'));
  return file;
}

function start(options: Options, id: number): Node {
  const { verbose } = options;
  const child = spawn(process.execPath, [SERVER_ENTRY, '--config', writeConfig(options, id)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: verbose ? process.env : { MILLRACE_LOG: 'warn', ...process.env },
    // Its own process group: Ctrl-C reaches this program only, which stops all nodes together.
    detached: true,
  });
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      // A failing node's words are shown in any case; its greeting is replaced by that of the cluster.
      const isLog = line.startsWith('{');
      const isShown = isLog ? /"level":"(error|fatal)"/.test(line) : stream === child.stderr;
      if (verbose || isShown) {
        process.stdout.write(`[node ${id}] ${line}\n`);
      }
    });
  }
  const ended = new Promise<number | string>((done) => {
    child.once('error', (error) => done(String(error)));
    child.once('exit', (code, signal) => done(code ?? signal ?? 'unknown'));
  });
  const url = (plane: Plane): string => `http://${address(options, id, plane)}`;
  return { id, client: url('client'), admin: url('admin'), child, ended };
}

async function isReady({ admin }: Node): Promise<boolean> {
  try {
    const response = await fetch(`${admin}/__svc/ready`, { signal: AbortSignal.timeout(1000) });
    await response.body?.cancel();
    return response.status === 200;
  } catch {
    return false;
  }
}

async function allReady(nodes: readonly Node[], signal: AbortSignal): Promise<boolean> {
  const deadlineMs = performance.now() + READY_TIMEOUT_MS;
  while (!signal.aborted && performance.now() < deadlineMs) {
    if ((await Promise.all(nodes.map(isReady))).every(Boolean)) return true;
    await sleep(POLL_MS);
  }
  return false;
}

async function stopAll(nodes: readonly Node[]): Promise<boolean> {
  for (const { child } of nodes) child.kill('SIGTERM');
  const late = sleep(STOP_TIMEOUT_MS, 'late' as const, { ref: false });
  const ends = await Promise.all(nodes.map(({ ended }) => Promise.race([ended, late])));
  for (const { child } of nodes) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  return ends.every((end) => end === 0);
}

function announce(nodes: readonly Node[], options: Options): void {
  const { directory } = options;
  const first = (nodes[0] as Node).client;
  const second = (nodes[1] as Node).client;
  const last = nodes.at(-1) as Node;
  const lines = nodes.map(
    ({ id, client, admin, child }) => `  node ${id}   clients ${client}   admin ${admin}   pid ${child.pid}`,
  );
  process.stdout.write(
    [
      `Millrace: ${nodes.length} nodes act as one; a write is on the disks of two of them before its answer leaves.`,
      ...lines,
      `  data     ${directory}  (a configuration file per node is there too)`,
      `  try      curl -X PUT ${first}/demo/hello && curl -X POST -H 'Content-Type: text/plain' -d hi ${second}/demo/hello`,
      `  status   npm run -s ctl -- status --config ${writeClusterFile(options)}`,
      `  kill     kill -9 ${last.child.pid}                    (node ${last.id}; the others go on)`,
      `  revive   node dist/main.js --config ${configFile(options, last.id)}`,
      '  Ctrl-C stops all nodes that were started here.',
      '',
    ].join('\n'),
  );
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: { data: { type: 'string' }, port: { type: 'string' }, verbose: { type: 'boolean' } },
  });
  const firstPort = Number(values.port ?? FIRST_PORT);
  if (!Number.isInteger(firstPort) || firstPort < 1 || firstPort > FIRST_PORT_MAX) {
    throw new Error(`--port ${values.port}: expected a number from 1 to ${FIRST_PORT_MAX}`);
  }
  return { directory: resolve(values.data ?? join('data', 'cluster')), firstPort, verbose: values.verbose === true };
}

async function main(): Promise<number> {
  let options: Options;
  try {
    options = readOptions();
  } catch (error) {
    const usage = 'usage: npm run cluster -- [--data DIR] [--port FIRST] [--verbose]';
    process.stderr.write(`cluster: ${(error as Error).message}\n${usage}\n`);
    return EXIT_USAGE;
  }
  const { directory } = options;
  mkdirSync(directory, { recursive: true });
  const ending = new AbortController();
  // More than once: a Ctrl-C under npm arrives from the terminal and from npm.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => ending.abort());
  const nodes = Array.from({ length: NODE_COUNT }, (_, i) => start(options, i + 1));
  process.on('exit', () => nodes.forEach(({ child }) => child.kill('SIGKILL')));
  const living = new Set(nodes);
  let isUp = false;
  for (const node of nodes) {
    void node.ended.then((end) => {
      living.delete(node);
      if (ending.signal.aborted) return;
      process.stdout.write(`node ${node.id} ended with ${end}; ${living.size} of ${nodes.length} are left\n`);
      // One that does not even start has said why.
      if (!isUp || living.size === 0) ending.abort();
    });
  }
  isUp = await allReady(nodes, ending.signal);
  if (isUp) {
    writeFileSync(formedFile(directory), '');
    // From now on an empty directory means a lost disk, also for a node that is revived by hand.
    for (const { id } of nodes) writeConfig(options, id);
    announce(nodes, options);
  } else if (!ending.signal.aborted) process.stderr.write(`the cluster was not ready within ${READY_TIMEOUT_MS} ms\n`);
  if (isUp && !ending.signal.aborted) {
    await new Promise<void>((done) => ending.signal.addEventListener('abort', () => done(), { once: true }));
  }
  const failed = (!isUp && living.size < nodes.length) || living.size === 0;
  const wasAsked = ending.signal.aborted;
  ending.abort();
  const clean = await stopAll([...living]);
  return wasAsked && clean && !failed ? 0 : 1;
}

// `npm run cluster | head` is no reason to stop the nodes.
process.stdout.on('error', () => undefined);
process.exit(await main());
