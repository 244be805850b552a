/** A node inside another program: README.md, "A real Millrace inside your own tests". */
import { type Address, formatAddress } from '../base/address.ts';
import { fromTables } from '../config/load.ts';
import { NodeLog } from '../logging/logger.ts';
import { launch } from './launch.ts';

export interface NodeOptions {
  /**
   * The tables of the configuration file, with the same keys, defaults and rules:
   * `{ server: { listen: '127.0.0.1:0' }, storage: { data_dir: '/tmp/data' } }`. Port 0 takes a free port.
   */
  readonly config: Readonly<Record<string, unknown>>;
  /** Takes the lines of the log, JSON that ends in a newline. Without it nothing is logged. */
  readonly log?: { write(line: string): void };
  /** The value of MILLRACE_LOG: a level, or a level and exceptions by component: `info,raft=debug`. */
  readonly verbosity?: string;
}

export interface NodeAddress {
  readonly host: string;
  readonly port: number;
  /** `http://127.0.0.1:4437`, without a slash at the end. */
  readonly url: string;
}

export interface RunningNode {
  /** Where the node listens, with the real ports. */
  readonly addresses: {
    /** For clients. */
    readonly client: NodeAddress;
    /** For operators. */
    readonly admin: NodeAddress;
  };
  /** Resolves when a part of the node has failed and the node therefore closes itself; acknowledged data is on disk. */
  readonly failed: Promise<Error>;
  /**
   * Finishes accepted requests (10 s at most), ends live readers, writes everything to its folder and ends all
   * threads. A second call waits for the first. `hanging`: threads wait for a disk that does not answer.
   */
  stop(): Promise<'ended' | 'hanging'>;
}

const SILENT = { write: (): void => undefined };

/**
 * Starts a node in this process; several may run beside each other. When it resolves, the node serves. It rejects with
 * the sentence that the server would print, and has closed then what it had opened.
 */
export async function startNode({ config, log = SILENT, verbosity }: NodeOptions): Promise<RunningNode> {
  const nodeLog = NodeLog.to(log, verbosity);
  const checked = fromTables(config);
  let onFailure: (error: Error) => void = () => undefined;
  const failed = new Promise<Error>((resolve) => {
    onFailure = resolve;
  });
  const node = await launch({
    config: checked,
    log: nodeLog,
    onFailure: (error) => {
      const sentence = 'a shard failed; the node ends, acknowledged data is on disk';
      nodeLog.logger('server').fatal({ err: error.cause }, sentence);
      onFailure(error);
    },
  });
  const scheme = checked.server.tls === undefined ? 'http' : 'https';
  const told = (address: Address): NodeAddress => ({ ...address, url: `${scheme}://${formatAddress(address)}` });
  return { addresses: { client: told(node.client), admin: told(node.admin) }, failed, stop: () => node.stop() };
}
