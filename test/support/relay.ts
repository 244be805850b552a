// A TCP relay to one port of the loopback that can lose what a bad path would lose, while all connections stay open.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

const HOST = '127.0.0.1';

export type Loss = 'nothing' | 'everything' | 'http';

export class Relay {
  /** The loss of bytes towards the target from now on, also on open connections. */
  loses: Loss = 'nothing';
  /** Bytes of the target are lost from now on. */
  losesAnswers = false;
  /** May change until the first connection. */
  targetPort = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server = createServer((socket) => this.#relay(socket));
  }

  static async open(): Promise<Relay> {
    const relay = new Relay();
    relay.#server.listen(0, HOST);
    await once(relay.#server, 'listening');
    return relay;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
    this.cut();
  }

  /** Ends all connections; new ones may come. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #relay(near: Socket): void {
    const far = connect({ host: HOST, port: this.targetPort, noDelay: true });
    near.setNoDelay(true);
    let isHttp: boolean | undefined;
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    near.on('data', (chunk) => {
      isHttp ??= chunk.subarray(0, 4).toString('latin1') === 'POST';
      if (this.loses === 'nothing' || (this.loses === 'http' && !isHttp)) far.write(chunk);
    });
    far.on('data', (chunk) => {
      if (!this.losesAnswers) near.write(chunk);
    });
  }
}
