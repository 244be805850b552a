// A protocol, as the pipelined generator sees it. A slot is one writer of one stream: it has one append in flight and
// sends the next one when that is acknowledged; many slots share a connection.

/** One connection's side of the protocol: pure bytes in, bytes out. */
export interface SlotProtocol {
  /** The first bytes on the connection. */
  readonly greeting: Buffer;
  /** True when appends may be sent. */
  readonly isReady: boolean;
  /** The bytes of the next append of `slot`. */
  append(slot: number): Buffer;
  /** Makes one message of appends that are sent together; without it they are sent one behind the other. */
  join?(appends: readonly Buffer[]): Buffer;
  /**
   * Takes what arrived, in memory that is used again; tells each slot that was answered, in order, and returns what has to
   * be sent back, if any.
   */
  receive(chunk: Buffer, onAnswer: (slot: number, isGood: boolean) => void): Buffer | undefined;
}

/** The arguments of a new connection. */
export interface SlotConnection {
  /** Number of the connection, unique in the run. */
  readonly index: number;
  readonly port: number;
  /** Global number of the first slot: slots of the connection are counted from 0. */
  readonly firstSlot: number;
  readonly slots: number;
  readonly payloadBytes: number;
}
