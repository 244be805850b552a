/** Actions of the page: the request, the line of the tool that does it, and the text to type first. */

import { OPERATOR_ROLES, type OperatorRole } from '../../base/scopes.ts';
import { listOf } from '../../nodes/cluster-snapshot.ts';
import { isObject } from '../../nodes/report.ts';

export interface Action {
  readonly title: string;
  /** The node refuses tokens with less, so the page does not offer it to them. */
  readonly needs: OperatorRole;
  /** Says in a sentence or two what happens. */
  readonly about: string;
  /** Why it may be wrong just now. */
  readonly warning?: string;
  /** As a terminal takes it. */
  readonly command: string;
  /** Has to be typed; undefined: a click is enough. */
  readonly confirm?: string;
  /** It takes something away for good. */
  readonly isFinal?: true;
  /** The node goes through many streams or bytes before it answers. */
  readonly takesLong?: true;
  /** Undefined: any node does it. */
  readonly node?: number;
  readonly method: 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Reads the answer to /__svc/whoami; undefined: it holds no role. */
export function roleIn(json: unknown): OperatorRole | undefined {
  return isObject(json) ? OPERATOR_ROLES.find((role) => role === json['role']) : undefined;
}

const PLAIN = /^[\w@%+=:,./-]+$/;

/** For a shell. */
export function quote(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function line(...words: readonly string[]): string {
  return ['millracectl', ...words].map(quote).join(' ');
}

const MARK = '/__svc/leadership-shed/maintenance';

/** `others`: nodes that have the mark. The command refuses then, unless it is forced. */
export function drain(node: number, others: readonly number[] = []): Action {
  const isAlone = others.length === 0;
  const risk = `with node ${node} down too a group may lose its majority`;
  return {
    title: `Drain node ${node}`,
    needs: 'operate',
    about: `Marks node ${node} for maintenance: it hands its leaderships to the others, one a second, and takes none until undrain. Unlike the command, the page does not look first whether the cluster can spare it.`,
    ...(isAlone ? {} : { warning: `Marked already: node ${listOf(others)}; ${risk}.` }),
    command: line('drain', '--node', String(node), ...(isAlone ? [] : ['--force'])),
    confirm: `node ${node}`,
    node,
    method: 'POST',
    path: MARK,
  };
}

export function undrain(node: number): Action {
  return {
    title: `Undrain node ${node}`,
    needs: 'operate',
    about: `Lifts the mark of node ${node}: it may lead again.`,
    command: line('undrain', '--node', String(node)),
    node,
    method: 'DELETE',
    path: MARK,
  };
}

export function transfer(group: number, leader: number, to: number): Action {
  return {
    title: `Hand group ${group} to node ${to}`,
    needs: 'operate',
    about: `Node ${leader} hands the leadership of group ${group} to node ${to}. Writes to the group wait for a moment.`,
    command: line('transfer', '--group', String(group), '--to', String(to)),
    node: leader,
    method: 'POST',
    path: `/__svc/raft/${group}/leader/transfer/${to}`,
  };
}

export function purge(bucket: string): Action {
  return {
    title: `Purge bucket ${bucket}`,
    needs: 'destroy',
    about: 'Erases the bucket with all its streams, and their objects in the cold store. Nothing brings them back.',
    command: line('bucket', 'purge', '--bucket', bucket, '--confirm', bucket),
    confirm: bucket,
    isFinal: true,
    takesLong: true,
    method: 'DELETE',
    path: `/__svc/purge/${encodeURIComponent(bucket)}`,
  };
}

export function flush(bucket: string, stream: string): Action {
  return {
    title: `Flush ${bucket}/${stream}`,
    needs: 'operate',
    about: "Moves the stream's oldest hot bytes to the cold store now, 8 MiB at most. The command moves all.",
    command: line('flush-cold', '--bucket', bucket, '--stream', stream),
    takesLong: true,
    method: 'POST',
    path: `/__svc/flush-cold/${pathOf(bucket, stream)}`,
  };
}

export function deliverAgain(id: string, driver: number): Action {
  const path = `/__svc/subscriptions/${encodeURIComponent(id)}/deliver`;
  return {
    title: `Deliver ${id} again`,
    needs: 'operate',
    about: 'Tries the delivery that failed now, and not when its pause is over.',
    command: `curl -X POST -H "Authorization: Bearer $MILLRACE_ADMIN_TOKEN" "$MILLRACE_ADMIN_URL"${quote(path)}`,
    node: driver,
    method: 'POST',
    path,
  };
}

export function pathOf(bucket: string, stream: string): string {
  return `${encodeURIComponent(bucket)}/${encodeURIComponent(stream)}`;
}

/** Where the admin plane has the stream. */
export function streamPath(bucket: string, stream: string): string {
  return `/__svc/streams/${pathOf(bucket, stream)}`;
}

/** As the tool's verbs about streams take it. */
function nameOf(bucket: string, stream: string): string {
  return `${bucket}/${stream}`;
}

export function create(bucket: string, stream: string, contentType: string): Action {
  return {
    title: `Create ${bucket}/${stream}`,
    needs: 'operate',
    about: `Makes the stream ${bucket}/${stream} of the type ${contentType}.`,
    command: line('stream', 'create', nameOf(bucket, stream), '--content-type', contentType),
    method: 'PUT',
    path: streamPath(bucket, stream),
    headers: { 'content-type': contentType },
  };
}

export function append(bucket: string, stream: string, contentType: string, body: string): Action {
  return {
    title: `Append to ${bucket}/${stream}`,
    needs: 'destroy',
    about: 'What was appended stays: a byte at an offset never changes.',
    // A dash at the beginning would make it a flag.
    command: line('stream', 'append', nameOf(bucket, stream), '--', body),
    method: 'POST',
    path: streamPath(bucket, stream),
    headers: { 'content-type': contentType },
    body,
  };
}

export function close(bucket: string, stream: string): Action {
  return {
    title: `Close ${bucket}/${stream}`,
    needs: 'destroy',
    about:
      'Nothing can be appended afterwards, and readers are told that the end is reached. A closed stream stays closed.',
    command: `${line('stream', 'append', nameOf(bucket, stream), '--close')} < /dev/null`,
    confirm: stream,
    isFinal: true,
    method: 'POST',
    path: streamPath(bucket, stream),
    headers: { 'stream-closed': 'true' },
  };
}

export function remove(bucket: string, stream: string): Action {
  return {
    title: `Delete ${bucket}/${stream}`,
    needs: 'destroy',
    about: 'Removes the stream with everything in it. Nothing brings it back.',
    command: line('stream', 'rm', nameOf(bucket, stream)),
    confirm: stream,
    isFinal: true,
    method: 'DELETE',
    path: streamPath(bucket, stream),
  };
}
