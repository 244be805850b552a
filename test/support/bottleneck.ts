// A way of bounded width: packets of all connections over it leave one after the other, in turn.
const PACKET_BYTES = 1400;

interface Packet {
  readonly sizeBytes: number;
  readonly leave: () => void;
}

export class Bottleneck {
  bytesPerSecond = Infinity;
  /** At most one packet of each connection, so that they take turns. */
  readonly #waiting: Packet[] = [];
  #freeAtMs = 0;
  #timer: NodeJS.Timeout | undefined;

  /** Calls `leave` for each packet of the bytes in its time, then resolves. */
  async pass(bytes: Buffer, leave: (packet: Buffer) => void): Promise<void> {
    for (let at = 0; at < bytes.length; at += PACKET_BYTES) {
      const packet = bytes.subarray(at, at + PACKET_BYTES);
      await new Promise<void>((resolve) => {
        this.#waiting.push({
          sizeBytes: packet.length,
          leave: () => {
            leave(packet);
            resolve();
          },
        });
        this.pump();
      });
    }
  }

  /** Also when the width has changed. */
  pump(): void {
    clearTimeout(this.#timer);
    const nowMs = performance.now();
    for (let packet = this.#waiting[0]; packet !== undefined; packet = this.#waiting[0]) {
      if (this.bytesPerSecond === Infinity) this.#freeAtMs = nowMs;
      if (this.#freeAtMs > nowMs) {
        this.#timer = setTimeout(() => this.pump(), this.#freeAtMs - nowMs);
        return;
      }
      this.#waiting.shift();
      // A timer that came late has not lost its share.
      this.#freeAtMs = Math.max(this.#freeAtMs, nowMs - 50) + (1000 * packet.sizeBytes) / this.bytesPerSecond;
      packet.leave();
    }
  }

  close(): void {
    clearTimeout(this.#timer);
  }
}
