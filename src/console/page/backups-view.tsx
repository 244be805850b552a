import { caughtMessage } from '../../base/caught.ts';
import { type Json, isObject } from '../../nodes/report.ts';
import { formatTime } from '../model/units.ts';
import { NoAnswer, jsonOf, sentenceOf } from './api.ts';
import { useLoad } from './load.ts';
import { Fact, Note, useDesk } from './parts.tsx';

interface Told {
  readonly node: number;
  readonly info: Json | undefined;
  readonly problem: string;
}

export function BackupsView() {
  const { watch } = useDesk();
  const ids = watch.nodes.filter(({ isAsked }) => isAsked).map(({ id }) => id);
  const { value, again } = useLoad(`backups ${ids.join(' ')}`, async (signal) => {
    const ask = async (node: number): Promise<Told> => {
      try {
        const answer = await watch.api.node(node, '/__svc/backup/info', { signal });
        const info = jsonOf(answer);
        if (answer.status !== 200 || !isObject(info)) throw new NoAnswer(sentenceOf(answer));
        return { node, info, problem: '' };
      } catch (error) {
        return { node, info: undefined, problem: caughtMessage(error) };
      }
    };
    return await Promise.all(ids.map(ask));
  });
  return (
    <>
      <p class="hint">
        Backups are made by the tool, to where it is told: <code>millracectl backup-create --location DIR</code>. The
        nodes keep no list of them; they know where this cluster was restored from, and the exports through them since
        they started. A whole backup has one of each group, each through the node that leads it.
      </p>
      <p>
        <button type="button" onClick={again}>
          Look again
        </button>
      </p>
      {(value ?? []).map((told) => (
        <NodeBackups key={told.node} {...told} />
      ))}
    </>
  );
}

function groupsIn(list: unknown, time: string): string[] {
  if (!Array.isArray(list)) return [];
  return list.filter(isObject).map((one) => `group ${String(one['raft_group_id'])} (${formatTime(Number(one[time]))})`);
}

function NodeBackups({ node, info, problem }: Told) {
  if (info === undefined) {
    return (
      <Note kind="bad">
        node {node}: {problem}
      </Note>
    );
  }
  const restored: unknown = info['restored_from'];
  const ended: unknown = info['exports_ended_early'];
  const running = groupsIn(info['exports_running'], 'since_unix_ms');
  const finished = groupsIn(info['exports_finished'], 'finished_unix_ms');
  const grace = info['cold_gc_grace_ms'];
  return (
    <section aria-label={`Backups of node ${node}`} class="card">
      <h2>node {node}</h2>
      <dl class="facts">
        <Fact name="Format">{String(info['format_version'])}</Fact>
        <Fact name="Groups">{String(info['raft_group_count'])}</Fact>
        <Fact name="Restored from">
          {Array.isArray(restored) && restored.length > 0 ? restored.join(', ') : 'nothing: it began empty'}
        </Fact>
        <Fact name="Under way">{running.length === 0 ? 'none' : running.join(', ')}</Fact>
        <Fact name="Last exports">{finished.length === 0 ? 'none' : finished.join(', ')}</Fact>
        {typeof grace === 'number' && <Fact name="Grace of cold objects">{grace / 1000} s</Fact>}
      </dl>
      {Array.isArray(ended) && ended.length > 0 ? (
        <ul>
          {ended.filter(isObject).map((one) => (
            <li key={String(one['raft_group_id'])}>
              group {String(one['raft_group_id'])}, {formatTime(Number(one['ended_unix_ms']))}: {String(one['reason'])}
            </li>
          ))}
        </ul>
      ) : (
        <p>No export through this node ended early.</p>
      )}
    </section>
  );
}
