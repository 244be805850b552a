import { useState } from 'preact/hooks';
import { groupViews } from '../../nodes/cluster-snapshot.ts';
import { transfer } from '../model/actions.ts';
import { type Cell, matrixOf } from '../model/matrix.ts';
import { snapshotOf } from '../model/samples.ts';
import { ActionButton, useDesk } from './parts.tsx';

const LETTERS = { leader: 'L', voter: 'v', learner: 'l', none: '·' } as const;

/** Nodes down, groups across: who leads, votes, learns, is behind. */
export function GroupMatrix() {
  const { watch } = useDesk();
  const [chosen, setChosen] = useState<number>();
  const rows = matrixOf(watch.nodes, watch.round, watch.lag);
  const groups = rows[0]?.cells.map(({ group }) => group) ?? [];
  return (
    <section aria-labelledby="groups">
      <h2 id="groups">Groups</h2>
      <p class="legend">
        <span class="cell leader">L</span> leads <span class="cell voter">v</span> votes{' '}
        <span class="cell learner">l</span> learns <span class="cell voter behind">v</span> behind{' '}
        <span class="cell voter away">v</span> does not answer <span class="cell none">·</span> no part
      </p>
      <div class="scroll" tabIndex={0} role="group" aria-labelledby="groups">
        <table class="matrix">
          <thead>
            <tr>
              <th scope="col">
                <span class="unseen">Node</span>
              </th>
              {groups.map((group) => (
                <th key={group} scope="col">
                  <button
                    type="button"
                    aria-pressed={group === chosen}
                    aria-label={`Group ${group}`}
                    onClick={() => setChosen(group === chosen ? undefined : group)}
                  >
                    {group}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ node, cells }) => (
              <tr key={node}>
                <th scope="row">node {node}</th>
                {cells.map((cell) => (
                  <MatrixCell key={cell.group} cell={cell} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {chosen === undefined ? (
        <p class="hint">The number of a group shows more of it.</p>
      ) : (
        <GroupFacts group={chosen} />
      )}
    </section>
  );
}

function MatrixCell({ cell: { role, isBehind, isAway, text } }: { cell: Cell }) {
  return (
    <td class={`cell ${role}${isAway ? ' away' : isBehind ? ' behind' : ''}`} title={text}>
      <span aria-hidden="true">{LETTERS[role]}</span>
      <span class="unseen">{text}</span>
    </td>
  );
}

function GroupFacts({ group }: { group: number }) {
  const { watch } = useDesk();
  const snapshot = snapshotOf(watch.round);
  const view = groupViews(snapshot).find(({ id }) => id === group);
  if (view === undefined) return <p>Group {group} is gone.</p>;
  const { leader, term, voters, committed } = view;
  return (
    <div class="card">
      <h3>Group {group}</h3>
      <p>
        {leader === undefined ? 'No leader' : `Node ${leader} leads`} in term {term}; voters {voters.join(', ')};
        committed up to {committed}.
      </p>
      <ul>
        {snapshot.map(({ nodeId, report }) => {
          const own = report?.groups.find(({ id }) => id === group);
          return (
            <li key={nodeId}>
              node {nodeId}: {own === undefined ? 'unknown' : `applied ${own.applied}, log up to ${own.lastLog}`}
            </li>
          );
        })}
      </ul>
      {leader !== undefined && (
        <p class="buttons">
          {voters
            .filter((voter) => voter !== leader)
            .map((voter) => (
              <ActionButton key={voter} action={transfer(group, leader, voter)} label={`Hand to node ${voter}`} />
            ))}
        </p>
      )}
    </div>
  );
}
