/** The nodes of a cluster over HTTP: every call has a bound in time, and fails with one sentence that names the node's fault. */
import { type ClusterFile, type ClusterNode, readClusterFile } from './cluster-file.ts';
import { Failure, Interrupted } from './failure.ts';
import { type NodeReport, parseMetrics } from './report.ts';
import type { Answer, Sample } from './sample.ts';

/** What is shown of an answer that was not understood. */
const SHOWN_CHARS_MAX = 200;

export interface ClusterOptions {
  readonly timeoutMs: number;
  /** Bearer token of the admin planes. */
  readonly token: string | undefined;
  /** Ends everything that is under way, with Interrupted. */
  readonly signal: AbortSignal;
}

export interface Reply {
  readonly status: number;
  readonly text: string;
}

/** What came of asking a leader to hand over: `reason` says why it did not. */
export interface TransferReply {
  readonly started: boolean;
  readonly reason: string;
}

export class Cluster {
  readonly file: ClusterFile;
  readonly #options: ClusterOptions;

  constructor(path: string, options: ClusterOptions) {
    this.file = readClusterFile(path);
    this.#options = options;
  }

  get nodes(): readonly ClusterNode[] {
    return this.file.nodes;
  }

  /** Of calls that the verbs make by themselves. */
  get options(): ClusterOptions {
    return this.#options;
  }

  get signal(): AbortSignal {
    return this.#options.signal;
  }

  node(id: number): ClusterNode {
    const found = this.nodes.find((node) => node.id === id);
    if (found !== undefined) return found;
    throw new Failure(
      `node ${id} is not in ${this.file.label}, which has ${this.nodes.map((node) => node.id).join(', ')}`,
    );
  }

  /** Asks all nodes at once. Only an interruption makes it reject. */
  sample(): Promise<Sample> {
    return Promise.all(this.nodes.map((node) => this.answerOf(node)));
  }

  async answerOf(node: ClusterNode): Promise<Answer> {
    try {
      return { nodeId: node.id, report: await this.metrics(node), error: '' };
    } catch (error) {
      if (error instanceof Interrupted || !(error instanceof Failure)) throw error;
      return { nodeId: node.id, report: undefined, error: error.message };
    }
  }

  /** From the client plane where the file has it, else from the admin plane. */
  async metrics(node: ClusterNode): Promise<NodeReport> {
    const path = '/__svc/metrics';
    let reply = node.httpUrl === undefined ? undefined : await this.#ask('GET', node.httpUrl + path, undefined, true);
    // A client plane with a token of its own does not answer operators.
    if (reply === undefined || reply.status === 401) reply = await this.call(node, 'GET', path);
    if (reply.status !== 200) throw new Failure(refusal(reply));
    const report = parseMetrics(parseJson(reply.text));
    if (report === undefined) throw new Failure('what answers there is not a node of this service');
    if (report.nodeId !== undefined && report.nodeId !== node.id)
      throw new Failure(`${node.httpUrl ?? node.adminUrl} answers as node ${report.nodeId}; mend the cluster file`);
    return report;
  }

  /** Sets or lifts the drain mark. Both may be repeated. */
  async mark(node: ClusterNode, draining: boolean): Promise<void> {
    const path = '/__svc/leadership-shed/maintenance';
    const reply = await this.call(node, draining ? 'POST' : 'DELETE', path);
    if (reply.status !== 200) throw new Failure(`node ${node.id}: ${refusal(reply)}`);
  }

  /** Also when the tool is being interrupted: one last attempt to leave nothing behind. Undefined: it worked. */
  async liftMark(node: ClusterNode): Promise<string | undefined> {
    try {
      const url = `${node.adminUrl}/__svc/leadership-shed/maintenance`;
      const reply = await this.#ask('DELETE', url, this.#options.token, false);
      return reply.status === 200 ? undefined : refusal(reply);
    } catch (error) {
      if (error instanceof Failure) return error.message;
      throw error;
    }
  }

  async transfer(node: ClusterNode, group: number, to: number): Promise<TransferReply> {
    const reply = await this.call(node, 'POST', `/__svc/raft/${group}/leader/transfer/${to}`);
    if (reply.status === 200) return { started: true, reason: '' };
    // 503: its mailbox is full for a moment.
    if (reply.status !== 409 && reply.status !== 503) throw new Failure(`group ${group}: ${refusal(reply)}`);
    return { started: false, reason: reasonIn(reply) };
  }

  /** False: the node does not lead the group. */
  async allowRevert(leader: ClusterNode, group: number, node: number): Promise<boolean> {
    const reply = await this.call(leader, 'POST', `/__svc/raft/${group}/nodes/${node}/allow-next-revert`);
    if (reply.status === 200) return true;
    if (reply.status === 409) return false;
    throw new Failure(`group ${group}: node ${leader.id}: ${refusal(reply)}`);
  }

  /** A call to a node's admin plane. */
  call(node: ClusterNode, method: string, path: string): Promise<Reply> {
    return this.#ask(method, node.adminUrl + path, this.#options.token, true);
  }

  async #ask(method: string, url: string, token: string | undefined, mayEnd: boolean): Promise<Reply> {
    const { timeoutMs, signal } = this.#options;
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      const response = await fetch(url, {
        method,
        headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
        signal: mayEnd ? AbortSignal.any([timeout, signal]) : timeout,
        redirect: 'error',
      });
      return { status: response.status, text: await response.text() };
    } catch (error) {
      if (mayEnd && signal.aborted) throw new Interrupted();
      if (timeout.aborted) throw new Failure(`${originOf(url)} did not answer within ${timeoutMs / 1000} s`);
      throw new Failure(`${originOf(url)} cannot be reached (${causeOf(error)})`);
    }
  }
}

/** The node's own sentence, or its status. */
export function refusal({ status, text }: Reply): string {
  if (status === 401) return 'it wants a bearer token: set MILLRACE_ADMIN_TOKEN or give --token-file';
  const sentence = text.trim().split('\n')[0] ?? '';
  return `it answered ${status}${sentence === '' ? '' : ` (${sentence.slice(0, SHOWN_CHARS_MAX)})`}`;
}

function reasonIn(reply: Reply): string {
  const body = parseJson(reply.text);
  const reason = (body as { readonly reason?: unknown } | undefined)?.reason;
  return typeof reason === 'string' ? reason : refusal(reply);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

export function originOf(url: string): string {
  return new URL(url).origin;
}

/** fetch hides what happened in the cause, and that in a list when a name has several addresses. */
export function causeOf(error: unknown): string {
  let cause: unknown = error;
  for (;;) {
    const { code, errors, cause: deeper } = cause as { code?: unknown; errors?: unknown; cause?: unknown };
    if (typeof code === 'string') return CODES[code] ?? code;
    const next: unknown = Array.isArray(errors) ? errors[0] : deeper;
    if (next === undefined || next === null) return (cause as Error).message;
    cause = next;
  }
}

const CODES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection lost',
  UND_ERR_SOCKET: 'connection lost',
  ENOTFOUND: 'unknown host name',
  EAI_AGAIN: 'unknown host name',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ETIMEDOUT: 'no connection',
  UND_ERR_CONNECT_TIMEOUT: 'no connection',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not known here; NODE_EXTRA_CA_CERTS names a file with more',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not known here; NODE_EXTRA_CA_CERTS names a file with more',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not known here; NODE_EXTRA_CA_CERTS names a file with more',
};
