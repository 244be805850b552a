// Ports for servers of tests. A server keeps its port over restarts, and while it is down no other test may get
// that port: each process of the suite takes from blocks of its own. What says that a block is taken is a
// listening socket, which ends with the process however it ends.
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';

const PORT_LOW = 10_000;
const BLOCK_PORTS = 100;
/** With fewer, files side by side might find none. */
const BLOCKS_MIN = 20;
/** All below the range from which the kernel takes the ports of outgoing connections: some hosts begin it earlier. */
const BLOCKS = Math.floor((Math.min(32_000, outgoingLow()) - PORT_LOW) / BLOCK_PORTS);
/** Where a block's socket listens: an address that no server of a test has. */
const LEASE_HOST = '127.77.0.1';
const LEASE_PORT_LOW = 9000;

function outgoingLow(): number {
  try {
    const low = Number(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').trim().split(/\s+/)[0]);
    return low >= PORT_LOW + BLOCKS_MIN * BLOCK_PORTS ? low : Infinity;
  } catch {
    // Not Linux: its range begins higher.
    return Infinity;
  }
}

interface Block {
  readonly end: number;
  next: number;
}

let block: Block = { next: 0, end: 0 };
/** One after the other: two that ask at once would skip the rest of a block. */
let queue: Promise<unknown> = Promise.resolve();

export async function freePort(): Promise<number> {
  return await freePorts(1);
}

/** The first of `count` free ports in a row. This process gives none of them out again. */
export async function freePorts(count: number): Promise<number> {
  const taken = queue.then(() => take(count));
  queue = taken.catch(() => undefined);
  return await taken;
}

async function take(count: number): Promise<number> {
  if (count > BLOCK_PORTS) throw new RangeError(`${count} ports in a row; a block has ${BLOCK_PORTS}`);
  for (;;) {
    if (block.end - block.next < count) block = await leaseBlock();
    const first = block.next;
    block.next += count;
    const free = await Promise.all(Array.from({ length: count }, (_, i) => isFree(first + i)));
    if (!free.includes(false)) return first;
  }
}

async function leaseBlock(): Promise<Block> {
  // From anywhere: a suite that ended a moment ago has connections that linger in the first blocks.
  const start = Math.floor(Math.random() * BLOCKS);
  for (let i = 0; i < BLOCKS; i++) {
    const index = (start + i) % BLOCKS;
    const lease = await listen(LEASE_HOST, LEASE_PORT_LOW + index);
    if (lease === undefined) continue;
    // It holds the block until the process ends, and does not keep the process from ending.
    lease.unref();
    const next = PORT_LOW + index * BLOCK_PORTS;
    return { next, end: next + BLOCK_PORTS };
  }
  throw new Error(`all ${BLOCKS} blocks of ports for tests are taken: another process listens on ${LEASE_HOST}`);
}

async function isFree(port: number): Promise<boolean> {
  const probe = await listen('127.0.0.1', port);
  if (probe === undefined) return false;
  await new Promise<void>((resolve) => probe.close(() => resolve()));
  return true;
}

/** Undefined when the port is taken. */
function listen(host: string, port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ port, host, exclusive: true }, () => resolve(server));
  });
}
