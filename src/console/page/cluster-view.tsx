import { foreignTo, lagOf, ledBy } from '../../nodes/cluster-snapshot.ts';
import { formatAge, formatBytes, stateOf } from '../../nodes/findings.ts';
import { type Json, isMarked } from '../../nodes/report.ts';
import { drain, undrain } from '../model/actions.ts';
import { type KnownNode, NO_ANSWER_YET, numberIn, snapshotOf } from '../model/samples.ts';
import { GroupMatrix } from './group-matrix.tsx';
import { ActionButton, Table, useDesk } from './parts.tsx';

const COLUMNS = [
  ...['Node', 'State', 'Version', 'Up', 'Leads', 'Behind'],
  ...['Hot', 'Cold', 'Backlog', 'Log', 'Memory', 'Checked', ''],
];

export function ClusterView() {
  const { watch } = useDesk();
  const clusterId = watch.round.find(({ report }) => report?.clusterId !== undefined)?.report?.clusterId;
  return (
    <>
      <Findings />
      <section aria-labelledby="nodes">
        <h2 id="nodes">Nodes</h2>
        {clusterId !== undefined && (
          <p class="hint">
            cluster_id <code>{clusterId}</code>
          </p>
        )}
        <Table label="nodes" columns={COLUMNS}>
          {watch.nodes.map((node) => (
            <NodeRow key={node.id} node={node} />
          ))}
        </Table>
        {watch.kind === 'node' && watch.nodes.length > 1 && (
          <p class="hint">
            This page is that of one node, which knows of the others what its groups tell.{' '}
            <code>millracectl console</code> shows all of them.
          </p>
        )}
      </section>
      <GroupMatrix />
    </>
  );
}

const WORDS = { bad: 'Fault', warn: 'Warning', info: 'Fine' } as const;

function Findings() {
  const { watch } = useDesk();
  const found = watch.findings;
  const isFine = found.every(({ severity }) => severity === 'info');
  return (
    <div role="status" aria-live="polite" aria-label="What is wrong">
      <ul class="findings">
        {isFine && watch.kind === 'node' && (
          <li class="info">
            <b>Fine</b> this node answers, and all of its groups have leaders
          </li>
        )}
        {found.map(({ severity, text }) => (
          <li key={text} class={severity === 'info' && !isFine ? 'hint' : severity}>
            {(severity !== 'info' || isFine) && <b>{WORDS[severity]}</b>} {text}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** How far the node is with reading all rows, and with comparing those of the groups that it leads. */
function checkedWords(metrics: Json | undefined): string {
  const of = (name: string): number => numberIn(metrics, name) ?? 0;
  const read = `since its start it read ${formatBytes(of('scrubbed_bytes'))} of rows, all of them ${of('scrubs')} times`;
  return `${read}, and compared ${formatBytes(of('compared_bytes'))} with other replicas, whole groups ${of('comparisons')} times`;
}

function NodeRow({ node }: { node: KnownNode }) {
  const { watch } = useDesk();
  const { id, host, isAsked } = node;
  const snapshot = snapshotOf(watch.round);
  const sample = watch.round.find(({ nodeId }) => nodeId === id);
  const report = sample?.report;
  const leads = ledBy(snapshot, id).length;
  const name = (
    <th scope="row">
      node {id} <span class="host">{host}</span>
    </th>
  );
  if (report === undefined) {
    const isSilent = isAsked && sample?.error !== NO_ANSWER_YET;
    const silentMs = watch.lag.silentMs(id);
    return (
      <tr class={isSilent ? 'bad' : ''}>
        {name}
        <td>{isSilent ? 'does not answer' : isAsked ? '' : 'not asked from here'}</td>
        <td colSpan={2}>{isSilent && silentMs > 0 ? formatAge(silentMs) : ''}</td>
        <td class="number">{leads}</td>
        <td colSpan={8}>{sample?.error ?? ''}</td>
      </tr>
    );
  }
  const state = stateOf(report, { isForeign: foreignTo(snapshot, id).length > 0, isLeading: leads > 0 });
  const others = snapshot.filter(({ nodeId, report: one }) => nodeId !== id && isMarked(one)).map((one) => one.nodeId);
  const behindMs = watch.lag.behindMs(id);
  const { backlogBytes, backlogAgeMs } = report;
  return (
    <tr class={state === 'ok' ? '' : 'warn'}>
      {name}
      <td>{state}</td>
      <td>{report.version}</td>
      <td class="number">{report.uptimeMs === undefined ? '–' : formatAge(report.uptimeMs)}</td>
      <td class="number">
        {leads}/{report.groups.length}
      </td>
      <td class="number" title={`${lagOf(snapshot, id)} entries in its worst group`}>
        {behindMs > 0 ? formatAge(behindMs) : 'no'}
      </td>
      <td class="number">{formatBytes(report.hotBytes)}</td>
      <td class="number">{formatBytes(report.coldBytes)}</td>
      <td class="number">
        {formatBytes(backlogBytes)}
        {backlogBytes > 0 && backlogAgeMs > 0 && `, ${formatAge(backlogAgeMs)}`}
      </td>
      <td class="number">{formatBytes(numberIn(sample?.metrics, 'log_file_bytes') ?? 0)}</td>
      <td class="number">{formatBytes(report.residentBytes)}</td>
      <td class="number" title={checkedWords(sample?.metrics)}>
        {formatBytes(numberIn(sample?.metrics, 'scrubbed_bytes') ?? 0)}
      </td>
      <td>
        {isMarked(report) ? (
          <ActionButton action={undrain(id)} label="Undrain" />
        ) : (
          <ActionButton action={drain(id, others)} label="Drain" />
        )}
      </td>
    </tr>
  );
}
