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
 * Here a call is read and refused when it cannot mean anything; whether it is possible is the
 * shard's to say. Its answer is passed on. Calls that change the membership are answered after up to
 * 10 s; no timeout of uWebSockets.js runs meanwhile (server.ts).
 */
import { formatAddress, parseAddress } from '../../../base/address.ts';
import type { ErrorCode } from '../../../base/errors.ts';
import { decodeUrlPart, parseUint53 } from '../../../protocol/header-values.ts';
import { QUERIES } from '../../../protocol/operations.ts';
import type { Reply } from '../../../protocol/reply.ts';
import type { AdminCall, AdminRequest, CallOutcome } from '../../../protocol/queries/administration.ts';
import { requestFor } from '../../../protocol/request.ts';
import { type QueryResult, collect, fail } from '../../../protocol/query-string.ts';
import type { ReplyRenderer, RequestContext } from '../../request.ts';
import { JSON_TYPE, TEXT_PLAIN } from '../../response.ts';
import type { Handler } from '../../router.ts';
import type { UwsResponse } from '../../uws.ts';

/** Node ids are unsigned 32-bit numbers; 0 stands for "no node". */
const NODE_ID_MAX = 2 ** 32 - 1;
/** So are those of groups, wherever groups are counted. */
const GROUP_ID_MAX = 2 ** 32 - 1;
const PARAMETERS: ReadonlySet<string> = new Set(['upto', 'addr', 'voters']);

/** Node id -> HOST:PORT of its cluster plane, as the configuration file has them. */
export type PeerAddresses = ReadonlyMap<number, string>;

/** The call about its group, or the sentence for 400. */
function readAsked(
  call: AdminCall,
  node: string,
  parameters: ReadonlyMap<string, string>,
  peers: PeerAddresses,
): QueryResult<AdminRequest> {
  if (call === 'snapshot') return { ok: true, value: { call } };
  if (call === 'purge') {
    const text = parameters.get('upto');
    const upTo = text === undefined ? undefined : parseUint53(text, 'upto');
    return upTo?.ok === false ? fail(upTo.reason) : { ok: true, value: { call, upTo: upTo?.value } };
  }
  if (call === 'membership') return parseVoters(parameters.get('voters'));
  const id = parseNodeId(decodeUrlPart(node) ?? '', 'the node');
  if (!id.ok) return id;
  if (call !== 'learner') return { ok: true, value: { call, node: id.value } };
  const address = readAddress(id.value, parameters.get('addr'), peers);
  return address.ok ? { ok: true, value: { call, node: id.value, address: address.value } } : address;
}

function parseNodeId(text: string, what: string): QueryResult<number> {
  const parsed = parseUint53(text, what);
  if (!parsed.ok) return fail(parsed.reason);
  if (parsed.value === 0 || parsed.value > NODE_ID_MAX) return fail(`${what} must be from 1 to ${NODE_ID_MAX}`);
  return { ok: true, value: parsed.value };
}

/** Ascending, each once. */
function parseVoters(text: string | undefined): QueryResult<AdminRequest> {
  if (text === undefined || text.trim() === '') {
    return fail('voters is required: the ids of all nodes that are to vote, such as voters=1,2,3');
  }
  const voters = new Set<number>();
  for (const element of text.split(',')) {
    if (element.trim() === '') return fail('voters holds an empty element');
    const node = parseNodeId(element.trim(), `the voter ${JSON.stringify(element.trim().slice(0, 40))}`);
    if (!node.ok) return node;
    voters.add(node.value);
  }
  return { ok: true, value: { call: 'membership', voters: [...voters].sort((a, b) => a - b) } };
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

const CALL_STATUS: Readonly<Record<CallOutcome, number>> = {
  done: 200,
  'nothing-to-do': 204,
  invalid: 400,
  'not-found': 404,
  refused: 409,
  declined: 409,
  failed: 500,
  'store-failed': 502,
  retry: 503,
  'disk-full': 507,
};
const CALL_CODE: { readonly [outcome in CallOutcome]?: ErrorCode } = {
  'store-failed': 'COLD_WRITE_FAILED',
  'disk-full': 'DISK_FULL',
};

/** Shows how the call ended on the shard. */
const PASS_ON: ReplyRenderer = {
  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    const { outcome, body } = QUERIES.admin.result.read(reply);
    const status = CALL_STATUS[outcome];
    responder.begin(res, status, 'no-store', CALL_CODE[outcome]);
    if (outcome === 'retry' || outcome === 'disk-full') res.writeHeader('retry-after', '1');
    res.writeHeader('content-type', typeof body === 'string' ? TEXT_PLAIN : JSON_TYPE);
    if (body === '') res.end();
    else responder.end(res, typeof body === 'string' ? body : JSON.stringify(body));
    return status;
  },
};

/** The handler of one kind of call. Its path names the group, and maybe a node. */
export function raftHandler(kind: AdminCall, peers: PeerAddresses): Handler {
  return (call) => {
    const { groupCount } = call.gateway;
    const [groupText = '', node = ''] = call.path.parameters;
    const collected = collect(call.req.getQuery() ?? '', PARAMETERS);
    if (!collected.ok) return call.text(400, collected.reason);
    const asked = readAsked(kind, node, collected.value, peers);
    // Required parameters are checked before ids.
    if (kind === 'membership' && !asked.ok) return call.text(400, asked.reason);
    const group = parseUint53(decodeUrlPart(groupText) ?? '', 'the group');
    if (!group.ok) return call.text(400, group.reason);
    if (group.value > GROUP_ID_MAX) return call.text(400, `the group must be from 0 to ${GROUP_ID_MAX}`);
    if (group.value >= groupCount)
      return call.text(404, `group ${group.value} does not exist; groups are 0 to ${groupCount - 1}`);
    if (!asked.ok) return call.text(400, asked.reason);
    return call.send(requestFor(QUERIES.admin, group.value, asked.value), PASS_ON);
  };
}

const FLUSH_BYTES_MIN = 1;
const FLUSH_BYTES_MAX = 8 * 1024 * 1024;
const FLUSH_PARAMETERS: ReadonlySet<string> = new Set(['min_hot_bytes', 'max_bytes']);

/**
 * POST /__svc/flush-cold/{bucket}/{stream}?min_hot_bytes&max_bytes: moves a prefix of the stream's hot bytes to the
 * cold store now. Numbers that cannot be read count as left out.
 */
export function handleFlushCold(call: RequestContext): void {
  const collected = collect(call.req.getQuery() ?? '', FLUSH_PARAMETERS);
  const parameters = collected.ok ? collected.value : new Map<string, string>();
  const { group, bucket, stream } = call;
  const request = requestFor(QUERIES.flushStream, group, {
    ...{ bucket, stream, minHotBytes: number(parameters.get('min_hot_bytes'), FLUSH_BYTES_MIN) },
    maxBytes: number(parameters.get('max_bytes'), FLUSH_BYTES_MAX),
  });
  return call.send(request, PASS_ON);
}

function number(text: string | undefined, otherwise: number): number {
  const parsed = parseUint53(text ?? '', 'the number');
  return parsed.ok ? parsed.value : otherwise;
}
