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

const PROTOCOLS = { etcd: GrpcPut, nats: NatsPublish, session: SessionAppend };

const run = JSON.parse(process.argv[2] ?? '') as PipelinedRun;

let phase: 'warm-up' | 'measured' | 'drain' = 'warm-up';
const samplesMs: number[] = [];
let good = 0;
let failed = 0;
let inFlight = 0;

class Connection {
  readonly #socket: Socket;
  readonly #protocol: SlotProtocol;
  readonly #sentMs: Float64Array;
  #isStarted = false;

  private constructor(socket: Socket, protocol: SlotProtocol, slots: number) {
    this.#socket = socket;
    this.#protocol = protocol;
    this.#sentMs = new Float64Array(slots);
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('close', () => assert(phase === 'drain', 'the server closed a connection'));
    socket.write(protocol.greeting);
    if (protocol.isReady) this.#start();
  }

  static async open(at: SlotConnection): Promise<Connection> {
    const socket = connect({ port: at.port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new Connection(socket, new PROTOCOLS[run.protocol](at), at.slots);
  }

  close(): void {
    this.#socket.destroy();
  }

  #start(): void {
    this.#isStarted = true;
    const now = performance.now();
    this.#send([...this.#sentMs.keys()].map((slot) => this.#next(slot, now)));
  }

  #send(appends: readonly Buffer[]): void {
    this.#socket.write(this.#protocol.join?.(appends) ?? Buffer.concat(appends));
  }

  #next(slot: number, nowMs: number): Buffer {
    this.#sentMs[slot] = nowMs;
    inFlight++;
    return this.#protocol.append(slot);
  }

  /** All answers of a chunk are taken first, and all slots they free write at once: one system call for each. */
  #receive(chunk: Buffer): void {
    const now = performance.now();
    const output: Buffer[] = [];
    const reply = this.#protocol.receive(chunk, (slot, isGood) => {
      inFlight--;
      if (phase === 'measured') {
        if (isGood) good++;
        else failed++;
        if (isGood && samplesMs.length < SAMPLES_MAX) samplesMs.push(now - (this.#sentMs[slot] as number));
      }
      if (phase !== 'drain') output.push(this.#next(slot, now));
    });
    if (reply !== undefined) this.#socket.write(reply);
    if (output.length > 0) this.#send(output);
    if (!this.#isStarted && this.#protocol.isReady) this.#start();
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
  phase = 'measured';
  await sleep(run.durationMs);
  phase = 'drain';
  const seconds = (performance.now() - startMs) / 1000;
  for (let waitedMs = 0; inFlight > 0 && waitedMs < DRAIN_MS; waitedMs += DRAIN_POLL_MS) await sleep(DRAIN_POLL_MS);
  for (const connection of connections) connection.close();
  const failures = [...(failed > 0 ? [`${failed} refused`] : []), ...(inFlight > 0 ? [`${inFlight} unanswered`] : [])];
  return {
    ratePerSecond: good / seconds,
    bytesPerSecond: Number.NaN,
    ...summarize(Float64Array.from(samplesMs)),
    requests: good + failed,
    failed: failed + inFlight,
    failures: failures.join(', '),
  };
}

console.log(JSON.stringify(await main()));
