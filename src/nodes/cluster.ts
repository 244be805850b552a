/** The nodes of a cluster over HTTP: every call is bounded in time, and fails with a sentence on the node's fault. */
import type { ClusterFile, ClusterNode } from './cluster-file.ts';
import { Failure, Interrupted, printable } from './failure.ts';
import { type ClientOptions, Mistake, type HttpReply, ask, originOf, reasonIn, refusal } from './http-client.ts';
import { type Json, type NodeReport, isObject, parseMetrics } from './report.ts';
import type { NodeSnapshot, ClusterSnapshot } from './cluster-snapshot.ts';

const METRICS = '/__svc/metrics';

export class Cluster {
  readonly file: ClusterFile;
  readonly options: ClientOptions;

  constructor(file: ClusterFile, options: ClientOptions) {
    this.file = file;
    this.options = options;
  }

  /** The same, for calls that end with this signal as well. */
  until(signal: AbortSignal): Cluster {
    return new Cluster(this.file, { ...this.options, signal: AbortSignal.any([this.signal, signal]) });
  }

  get nodes(): readonly ClusterNode[] {
    return this.file.nodes;
  }

  get signal(): AbortSignal {
    return this.options.signal;
  }

  node(id: number): ClusterNode {
    const found = this.nodes.find((node) => node.id === id);
    if (found !== undefined) return found;
    throw new Failure(
      `node ${id} is not in ${this.file.label}, which has ${this.nodes.map((node) => node.id).join(', ')}`,
    );
  }

  /** Asks all nodes at once. Only an interruption makes it reject. */
  snapshot(): Promise<ClusterSnapshot> {
    return Promise.all(this.nodes.map((node) => this.answerOf(node)));
  }

  async answerOf(node: ClusterNode): Promise<NodeSnapshot> {
    try {
      return { nodeId: node.id, report: await this.metrics(node), error: '' };
    } catch (error) {
      if (error instanceof Interrupted || !(error instanceof Failure)) throw error;
      const isMistake = error instanceof Mistake;
      return { nodeId: node.id, report: undefined, error: printable(error.message), isMistake };
    }
  }

  /** From the client plane where the file has it, else from the admin plane. */
  async metrics(node: ClusterNode): Promise<NodeReport> {
    return (await this.#readMetrics(node)).report;
  }

  /** All that the node says, which may be anything but is a node's by its shape. */
  async metricsJson(node: ClusterNode): Promise<Json> {
    return (await this.#readMetrics(node)).json;
  }

  async #readMetrics(node: ClusterNode): Promise<{ readonly report: NodeReport; readonly json: Json }> {
    let reply =
      node.httpUrl === undefined
        ? undefined
        : await ask(this.options, 'GET', node.httpUrl + METRICS, { withToken: false, mayEnd: true });
    // A client plane with a token of its own does not answer operators.
    if (reply === undefined || reply.status === 401) reply = await this.call(node, 'GET', METRICS);
    if (reply.status === 401) throw new Mistake(refusal(reply));
    if (isNoRoute(reply)) throw noAdminPlane(node.httpUrl ?? node.adminUrl);
    if (reply.status !== 200) throw new Failure(refusal(reply));
    const json = parseJson(reply.text);
    const report = parseMetrics(json);
    if (report === undefined || !isObject(json)) throw new Failure('what answers there is not a node of this service');
    checkName(node, node.httpUrl ?? node.adminUrl, report);
    return { report, json };
  }

  /** Sets or lifts the drain mark. Both may be repeated. A Mistake: nothing was changed, on no node. */
  async mark(node: ClusterNode, wanted: 'draining' | 'serving'): Promise<void> {
    const named = await this.call(node, 'GET', METRICS);
    const report = named.status === 200 ? parseMetrics(parseJson(named.text)) : undefined;
    if (report !== undefined) checkName(node, node.adminUrl, report);
    const path = '/__svc/leadership-shed/maintenance';
    const reply = await this.call(node, wanted === 'draining' ? 'POST' : 'DELETE', path);
    if (reply.status === 200) return;
    const isRefused = reply.status === 401 || reply.status === 403;
    throw new (isRefused ? Mistake : Failure)(`node ${node.id}: ${refusal(reply)}`);
  }

  /** Lifts the mark, even while the tool is being interrupted. Undefined: it worked; else why not. */
  async liftMark(node: ClusterNode): Promise<string | undefined> {
    try {
      const url = `${node.adminUrl}/__svc/leadership-shed/maintenance`;
      const reply = await ask(this.options, 'DELETE', url, { withToken: true, mayEnd: false });
      return reply.status === 200 ? undefined : refusal(reply);
    } catch (error) {
      if (error instanceof Failure) return error.message;
      throw error;
    }
  }

  /** Why the leader does not hand over; undefined: it does. */
  async transfer(node: ClusterNode, group: number, to: number): Promise<string | undefined> {
    const reply = await this.call(node, 'POST', `/__svc/raft/${group}/leader/transfer/${to}`);
    if (reply.status === 200) return undefined;
    // 503: its mailbox is full for a moment.
    if (reply.status !== 409 && reply.status !== 503) throw new Failure(`group ${group}: ${refusal(reply)}`);
    return reasonIn(reply.text) ?? refusal(reply);
  }

  /** False: the node does not lead the group. */
  async allowRevert(leader: ClusterNode, group: number, node: number): Promise<boolean> {
    const reply = await this.call(leader, 'POST', `/__svc/raft/${group}/nodes/${node}/allow-next-revert`);
    if (reply.status === 200) return true;
    if (reply.status === 409) return false;
    throw new Failure(`group ${group}: node ${leader.id}: ${refusal(reply)}`);
  }

  /** A call that every node takes: the first that can be reached gets it. */
  async callAny(method: string, path: string, json?: string): Promise<HttpReply> {
    const reasons: string[] = [];
    for (const node of this.nodes) {
      try {
        return await this.call(node, method, path, json);
      } catch (error) {
        if (error instanceof Interrupted || error instanceof Mistake || !(error instanceof Failure)) throw error;
        reasons.push(`node ${node.id}: ${error.message}`);
      }
    }
    throw new Failure(`no node takes the call (${reasons.join('; ')})`);
  }

  /** A call to a node's admin plane. */
  async call(node: ClusterNode, method: string, path: string, json?: string): Promise<HttpReply> {
    const manner = { withToken: true, mayEnd: true, ...(json === undefined ? {} : { json }) };
    const reply = await ask(this.options, method, node.adminUrl + path, manner);
    if (isNoRoute(reply)) throw noAdminPlane(node.adminUrl);
    return reply;
  }
}

/** The client plane has no such routes. An admin plane names the resource that it does not know. */
function isNoRoute({ status, text }: HttpReply): boolean {
  return status === 404 && ['', 'no such route'].includes(text.trim());
}

function noAdminPlane(url: string): Mistake {
  return new Mistake(`${originOf(url)} is no admin plane; the cluster file wants the port of server.admin_listen`);
}

function checkName(node: ClusterNode, url: string, { nodeId }: NodeReport): void {
  if (nodeId !== undefined && nodeId !== node.id)
    throw new Mistake(`${url} answers as node ${nodeId}; mend the cluster file`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
