// Runs as a separate process: `pipelined-main JSON` (PipelinedRun). Prints a LoadResult as JSON on its last line.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { summarize, type LoadResult } from '../stats.ts';
import { GrpcPut } from './grpc-put.ts';
import { NatsPublish } from './nats-publish.ts';
import type { PipelinedRun } from './pipelined.ts';
import { SessionAppend } from './session-append.ts';
import type { SlotConnection, SlotProtocol } from './slots.ts';

/** Time for requests in flight at the end to be answered; the rest has failed. */
const DRAIN_MS = 5_000;
const DRAIN_POLL_MS = 10;
/** 16 million latencies: 40 s at a rate no target reaches. Beyond, they are not kept. */
const SAMPLES_MAX = 1 << 24;
/** As much as Node would allocate for each read of a socket. */
const READ_BYTES = 64 * 1024;

const PROTOCOLS = { etcd: GrpcPut, nats: NatsPublish, session: SessionAppend };

const run = JSON.parse(process.argv[2] ?? '') as PipelinedRun;

let phase: 'warm-up' | 'measured' | 'drain' = 'warm-up';
const samplesMs = new Float64Array(SAMPLES_MAX);
let samples = 0;
let good = 0;
let failed = 0;
let inFlight = 0;

class Connection {
  readonly #socket: Socket;
  readonly #protocol: SlotProtocol;
  readonly #sentMs: Float64Array;
  /** Appends that the answers of a chunk made room for. */
  readonly #output: Buffer[] = [];
  readonly #answered = (slot: number, isGood: boolean): void => this.#take(slot, isGood);
  #nowMs = 0;
  #isStarted = false;

  private constructor(at: SlotConnection) {
    const protocol = (this.#protocol = new PROTOCOLS[run.protocol](at));
    this.#sentMs = new Float64Array(at.slots);
    const callback = (bytes: number, memory: Uint8Array): boolean => {
      this.#receive(Buffer.from(memory.buffer, memory.byteOffset, bytes));
      return true;
    };
    // The memory is used again for each read: nothing is allocated for what comes.
    const onread = { buffer: Buffer.alloc(READ_BYTES), callback };
    this.#socket = connect({ port: at.port, host: '127.0.0.1', noDelay: true, onread });
    this.#socket.on('close', () => assert(phase === 'drain', 'the server closed a connection'));
    this.#socket.write(protocol.greeting);
  }

  static async open(at: SlotConnection): Promise<Connection> {
    const connection = new Connection(at);
    await once(connection.#socket, 'connect');
    connection.#startIfReady();
    return connection;
  }

  close(): void {
    this.#socket.destroy();
  }

  #startIfReady(): void {
    if (this.#isStarted || !this.#protocol.isReady) return;
    this.#isStarted = true;
    this.#nowMs = performance.now();
    for (const slot of this.#sentMs.keys()) this.#next(slot);
    this.#send();
  }

  #send(): void {
    const output = this.#output;
    this.#socket.write(this.#protocol.join?.(output) ?? Buffer.concat(output));
    output.length = 0;
  }

  #next(slot: number): void {
    this.#sentMs[slot] = this.#nowMs;
    inFlight++;
    this.#output.push(this.#protocol.append(slot));
  }

  #take(slot: number, isGood: boolean): void {
    inFlight--;
    if (phase === 'measured') {
      if (isGood) good++;
      else failed++;
      if (isGood && samples < SAMPLES_MAX) samplesMs[samples++] = this.#nowMs - (this.#sentMs[slot] as number);
    }
    if (phase !== 'drain') this.#next(slot);
  }

  /** All answers of a chunk are taken first, and all slots they free write at once: one system call for each. */
  #receive(chunk: Buffer): void {
    this.#nowMs = performance.now();
    const reply = this.#protocol.receive(chunk, this.#answered);
    if (reply !== undefined) this.#socket.write(reply);
    if (this.#output.length > 0) this.#send();
    this.#startIfReady();
  }
}

/** Connections in turn over the nodes, slots evenly over the connections. */
function layout(): SlotConnection[] {
  const { ports, connections, streams, payloadBytes } = run;
  const border = (index: number): number => Math.floor((index * streams) / connections);
  return Array.from({ length: connections }, (_, index) => ({
    index,
    port: ports[index % ports.length] as number,
    firstSlot: border(index),
    slots: border(index + 1) - border(index),
    payloadBytes,
  }));
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function main(): Promise<LoadResult> {
  const connections: Connection[] = [];
  for (const at of layout()) connections.push(await Connection.open(at));
  await sleep(run.warmUpMs);
  const startMs = performance.now();
  const cpu = process.cpuUsage();
  phase = 'measured';
  await sleep(run.durationMs);
  phase = 'drain';
  const { user, system } = process.cpuUsage(cpu);
  const seconds = (performance.now() - startMs) / 1000;
  for (let waitedMs = 0; inFlight > 0 && waitedMs < DRAIN_MS; waitedMs += DRAIN_POLL_MS) await sleep(DRAIN_POLL_MS);
  for (const connection of connections) connection.close();
  const failures = [...(failed > 0 ? [`${failed} refused`] : []), ...(inFlight > 0 ? [`${inFlight} unanswered`] : [])];
  return {
    ratePerSecond: good / seconds,
    bytesPerSecond: Number.NaN,
    ...summarize(samplesMs.subarray(0, samples)),
    generatorUs: (user + system) / (good + failed),
    requests: good + failed,
    failed: failed + inFlight,
    failures: failures.join(', '),
  };
}

console.log(JSON.stringify(await main()));
