/**
 * Operators' calls about one Raft group on this node, POST but for one:
 *
 *   /__svc/raft/{group}/snapshot
 *   /__svc/raft/{group}/purge?upto=INDEX               without upto: the last snapshot index
 *   /__svc/raft/{group}/learners/{node}?addr=HOST:PORT  addr: for a node that raft.peers does not have
 *   DELETE /__svc/raft/{group}/learners/{node}          takes back what the line above did, as with a wrong address
 *   /__svc/raft/{group}/membership?voters=1,2,3
 *   /__svc/raft/{group}/leader/transfer/{node}
 *   /__svc/raft/{group}/nodes/{node}/allow-next-revert
 *
 * Here a call is read and refused when it cannot mean anything; whether it is possible is the shard's to say. Its answer comes
 * with status and body and is passed on. Calls that change the membership are answered after up to 10 s; no timeout of
 * uWebSockets.js runs meanwhile (server.ts).
 */
import { formatAddress, parseAddress } from '../../../base/address.ts';
import { decodePathSegment, parseUint53 } from '../../../protocol/header-values.ts';
import type { Reply } from '../../../protocol/reply.ts';
import {
  ADMIN_ALLOW_REVERT,
  ADMIN_FORGET_LEARNER,
  ADMIN_LEARNER,
  ADMIN_MEMBERSHIP,
  ADMIN_PURGE,
  ADMIN_SNAPSHOT,
  ADMIN_TRANSFER,
  newRequest,
} from '../../../protocol/request.ts';
import { Exchange } from '../../exchange.ts';
import type { Plane } from '../../plane.ts';
import { type QueryResult, collect } from '../../query.ts';
import { type Responder, TEXT_PLAIN } from '../../respond.ts';
import type { UwsRequest, UwsResponse } from '../../uws.ts';
import { QUERIES } from '../../../protocol/operations.ts';

export const RAFT_PREFIX = '/__svc/raft/';
/** Node ids are unsigned 32-bit numbers; 0 stands for "no node". */
const NODE_ID_MAX = 2 ** 32 - 1;
/** So are those of groups, wherever groups are counted. */
const GROUP_ID_MAX = 2 ** 32 - 1;
/** What the shard reads as "no number was given". */
const NONE = -1;
const PARAMETERS: ReadonlySet<string> = new Set(['upto', 'addr', 'voters']);

/** Node id -> HOST:PORT of its cluster plane, as the configuration file has them. */
export type PeerAddresses = ReadonlyMap<number, string>;

/** A call as the shard takes it. */
export interface RaftCall {
  readonly mode: number;
  readonly group: number;
  /** A node, an index, or NONE. */
  readonly value: number;
  /** Voters, or a learner's address; may be empty. */
  readonly text: string;
}

interface Route {
  readonly mode: number;
  readonly group: string;
  readonly node: string | undefined;
}

/** Undefined: no such route. The segments of numbers are still text. */
function findRoute(path: string): Route | undefined {
  const [group = '', verb, second, third, ...more] = path.slice(RAFT_PREFIX.length).split('/');
  if (more.length > 0) return undefined;
  const route = (mode: number, node?: string): Route => ({ mode, group, node });
  if (second === undefined) {
    if (verb === 'snapshot') return route(ADMIN_SNAPSHOT);
    if (verb === 'purge') return route(ADMIN_PURGE);
    return verb === 'membership' ? route(ADMIN_MEMBERSHIP) : undefined;
  }
  if (third === undefined) return verb === 'learners' ? route(ADMIN_LEARNER, second) : undefined;
  if (verb === 'leader' && second === 'transfer') return route(ADMIN_TRANSFER, third);
  return verb === 'nodes' && third === 'allow-next-revert' ? route(ADMIN_ALLOW_REVERT, second) : undefined;
}

type CallResult = QueryResult<RaftCall> | { readonly ok: false; readonly status: 404; readonly reason: string };

const fail = (reason: string): { readonly ok: false; readonly reason: string } => ({ ok: false, reason });

/**
 * The call, or the sentence for the 400, or for the 404 when the node does not have the group. Required parameters are looked at
 * before ids.
 */
function readCall(route: Route, query: string | undefined, groupCount: number, peers: PeerAddresses): CallResult {
  const collected = collect(query ?? '', PARAMETERS);
  if (!collected.ok) return collected;
  const parameters = collected.value;
  const voters = route.mode === ADMIN_MEMBERSHIP ? parseVoters(parameters.get('voters')) : undefined;
  if (voters?.ok === false) return voters;
  const group = parseUint53(decodePathSegment(route.group) ?? '', 'the group');
  if (!group.ok) return fail(group.reason);
  if (group.value > GROUP_ID_MAX) return fail(`the group must be from 0 to ${GROUP_ID_MAX}`);
  if (group.value >= groupCount) {
    const reason = `group ${group.value} does not exist; groups are 0 to ${groupCount - 1}`;
    return { ok: false, status: 404, reason };
  }
  const value = route.node === undefined ? parseUpTo(route.mode, parameters.get('upto')) : parseNode(route.node);
  if (!value.ok) return value;
  const address = route.mode === ADMIN_LEARNER ? readAddress(value.value, parameters.get('addr'), peers) : undefined;
  if (address?.ok === false) return address;
  const text = voters?.value ?? address?.value ?? '';
  return { ok: true, value: { mode: route.mode, group: group.value, value: value.value, text } };
}

function parseUpTo(mode: number, upTo: string | undefined): QueryResult<number> {
  if (mode !== ADMIN_PURGE || upTo === undefined) return { ok: true, value: NONE };
  const parsed = parseUint53(upTo, 'upto');
  return parsed.ok ? { ok: true, value: parsed.value } : fail(parsed.reason);
}

function parseNode(segment: string): QueryResult<number> {
  return parseNodeId(decodePathSegment(segment) ?? '', 'the node');
}

function parseNodeId(text: string, what: string): QueryResult<number> {
  const parsed = parseUint53(text, what);
  if (!parsed.ok) return fail(parsed.reason);
  if (parsed.value === 0 || parsed.value > NODE_ID_MAX) return fail(`${what} must be from 1 to ${NODE_ID_MAX}`);
  return { ok: true, value: parsed.value };
}

/** Ascending, each once. */
function parseVoters(text: string | undefined): QueryResult<string> {
  if (text === undefined || text.trim() === '') {
    return fail('voters is required: the ids of all nodes that shall vote, such as voters=1,2,3');
  }
  const voters = new Set<number>();
  for (const element of text.split(',')) {
    if (element.trim() === '') return fail('voters holds an empty element');
    const node = parseNodeId(element.trim(), `the voter ${JSON.stringify(element.trim().slice(0, 40))}`);
    if (!node.ok) return node;
    voters.add(node.value);
  }
  return { ok: true, value: [...voters].sort((a, b) => a - b).join(',') };
}

/** That of raft.peers, or else the one that is given; empty when there is neither. It becomes known to every node. */
function readAddress(node: number, given: string | undefined, peers: PeerAddresses): QueryResult<string> {
  const configured = peers.get(node);
  const written = given
    ?.trim()
    .replace(/^https?:\/\//, '')
    .replace(/\/$/, '');
  if (written === undefined || written === configured) return { ok: true, value: configured ?? '' };
  if (written === '')
    return fail('addr is blank; give the HOST:PORT of cluster_listen, or leave it out for a node of raft.peers');
  if (configured !== undefined)
    return fail(`raft.peers of this node has ${configured} for node ${node}; addr cannot change that`);
  const address = parseAddress(written);
  if (address === undefined || address.port === 0)
    return fail('addr must be HOST:PORT, the cluster_listen of the node');
  return { ok: true, value: formatAddress(address) };
}

/** Passes on what the shard answers. */
export class OperatorExchange extends Exchange {
  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    const status = reply.a;
    responder.begin(res, status);
    if (status === 503) res.writeHeader('retry-after', '1');
    res.writeHeader('content-type', reply.contentType === '' ? TEXT_PLAIN : reply.contentType);
    if (reply.body === undefined) res.end();
    else responder.end(res, reply.body);
    return status;
  }
}

export function handleRaftAdmin(
  plane: Plane,
  peers: PeerAddresses,
  res: UwsResponse,
  req: UwsRequest,
  method: string,
  responder: Responder,
  startedMs: number,
): void {
  const route = findRoute(req.getUrl());
  if (route === undefined) return plane.refuse(res, responder, 'bucketed', 'other', startedMs, 'ROUTE_NOT_FOUND');
  const forgets = method === 'delete' && route.mode === ADMIN_LEARNER;
  if (method !== 'post' && !forgets) {
    const allowed = route.mode === ADMIN_LEARNER ? 'POST, DELETE' : 'POST';
    return plane.count('other', responder.methodNotAllowed(res, allowed), startedMs);
  }
  const call = readCall(
    forgets ? { ...route, mode: ADMIN_FORGET_LEARNER } : route,
    req.getQuery(),
    plane.ctx.gateway.groupCount,
    peers,
  );
  if (!call.ok) {
    const status = 'status' in call ? call.status : 400;
    responder.text(res, status, call.reason);
    return plane.count('other', status, startedMs);
  }
  const exchange = new OperatorExchange(plane);
  exchange.open(res, responder, 'bucketed', 'other', startedMs);
  const request = newRequest();
  request.op = QUERIES.admin.number;
  request.group = call.value.group;
  request.mode = call.value.mode;
  request.value = call.value.value;
  request.command.bucket = call.value.text;
  return exchange.send(request);
}
