// Replaces the service managers of a cluster's hosts: the operator's restart command asks it over HTTP, because the
// nodes are this process's children.
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestCluster } from './cluster.ts';

export class HostAgent {
  readonly #server: Server;
  /** Nodes that were restarted, in their order. */
  readonly restarted: number[] = [];
  /** Told before a node is stopped. */
  onRestart: (id: number) => void = () => undefined;

  private constructor(cluster: TestCluster) {
    this.#server = createServer((request, response) => {
      const [, verb, node] = /^\/(restart|stop)\/(\d+)$/.exec(request.url ?? '') ?? [];
      const id = Number(node);
      if (!cluster.ids.includes(id)) return void response.writeHead(404).end('no such node\n');
      const work = verb === 'stop' ? cluster.node(id).stop() : this.#restart(cluster, id);
      work.then(
        () => response.end('done\n'),
        (error: unknown) => response.writeHead(500).end(`${String(error)}\n`),
      );
      return undefined;
    });
  }

  static async start(cluster: TestCluster): Promise<HostAgent> {
    const agent = new HostAgent(cluster);
    await new Promise<void>((resolve) => agent.#server.listen(0, '127.0.0.1', resolve));
    return agent;
  }

  /** For --restart-cmd. */
  get command(): string {
    return this.#commandTo('restart');
  }

  /** One that forgets to start the node. */
  get commandToStop(): string {
    return this.#commandTo('stop');
  }

  #commandTo(verb: string): string {
    return `curl -fsS -X POST http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/${verb}/{node_id}`;
  }

  /** Resolves when no restart is under way: a command that was killed may have left one. */
  idle: Promise<unknown> = Promise.resolve();

  async #restart(cluster: TestCluster, id: number): Promise<void> {
    this.onRestart(id);
    const work = (async (): Promise<void> => {
      await cluster.node(id).stop();
      // As a service manager does: started, not necessarily ready.
      await cluster.restart(id);
      this.restarted.push(id);
    })();
    this.idle = Promise.allSettled([this.idle, work]);
    await work;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
