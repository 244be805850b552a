// Ways between nodes on which bits change: TCP's own checksum lets one error in some thousands through.
import { type Server, type Socket, connect, createServer } from 'node:net';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Random } from '../support/random.ts';

const HOST = '127.0.0.1';
/** Beyond the handshakes, and so early that a small state is still on its way. */
const FROM_BYTES = 500;
const TO_BYTES = 600_000;
const FLIPS_MAX = 3;

export class FlippingLinks {
  readonly #random: Random;
  readonly #servers = new Map<string, Server>();
  readonly #sockets = new Set<Socket>();
  #targetPort = 0;
  /** Bytes that have passed on all ways, and at which of them a bit changes. */
  #passed = 0;
  readonly #flips: number[];
  flipped = 0;

  constructor(random: Random) {
    this.#random = random;
    const count = random.int(1, FLIPS_MAX);
    this.#flips = Array.from({ length: count }, () => random.int(FROM_BYTES, TO_BYTES)).sort((a, b) => a - b);
  }

  /** Ways from some nodes to one; what it sends back is left alone. */
  async open(from: readonly number[], to: number): Promise<void> {
    for (const id of from) {
      const server = createServer((socket) => this.#join(socket));
      server.listen(0, HOST);
      await once(server, 'listening');
      this.#servers.set(`${id}-${to}`, server);
    }
  }

  via(from: number, to: number, port: number): number {
    const server = this.#servers.get(`${from}-${to}`);
    if (server === undefined) return port;
    this.#targetPort = port;
    return (server.address() as AddressInfo).port;
  }

  close(): void {
    for (const server of this.#servers.values()) server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #join(near: Socket): void {
    const far = connect({ host: HOST, port: this.#targetPort, noDelay: true });
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => other.destroy());
    }
    near.on('data', (chunk: Buffer) => void far.write(this.#pass(chunk)));
    far.pipe(near);
  }

  #pass(chunk: Buffer): Buffer {
    const start = this.#passed;
    this.#passed += chunk.length;
    for (let at = this.#flips[0]; at !== undefined && at < this.#passed; at = this.#flips[0]) {
      this.#flips.shift();
      this.flipped++;
      const byte = at - start;
      chunk[byte] = (chunk[byte] ?? 0) ^ (1 << this.#random.int(0, 7));
    }
    return chunk;
  }
}
