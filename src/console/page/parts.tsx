/** Parts that several views share. */
import { type ComponentChildren, createContext } from 'preact';
import { useContext, useId, useLayoutEffect, useReducer } from 'preact/hooks';
import { type OperatorRole, includesRole } from '../../base/scopes.ts';
import type { Action } from '../model/actions.ts';
import type { Watch } from './watch.ts';

export interface Desk {
  readonly watch: Watch;
  /** Opens the dialog of an action; `done` is called when it went well. */
  readonly propose: (action: Action, done?: () => void) => void;
}

export const DeskContext = createContext<Desk | undefined>(undefined);

export function useDesk(): Desk {
  const desk = useContext(DeskContext);
  if (desk === undefined) throw new Error('a part of the page stands outside of it');
  return desk;
}

/** Draws the part again after each round. */
export function useRounds({ watch }: Desk): void {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  // With the first drawing: what is found before a later effect would be missed.
  useLayoutEffect(() => watch.subscribe(() => draw(0)), [watch]);
}

/** Whether the token of the page has the role; false until the node has told it. */
export function useRole(needed: OperatorRole): boolean {
  return includesRole(useDesk().watch.role, needed);
}

/** Absent where the token of the page may not do it. */
export function ActionButton({ action, label, done }: { action: Action; label: string; done?: () => void }) {
  const { propose } = useDesk();
  if (!useRole(action.needs)) return null;
  const className = action.isFinal === true ? 'final' : '';
  return (
    <button type="button" class={className} onClick={() => propose(action, done)} aria-label={action.title}>
      {label}
    </button>
  );
}

export function Note({ kind, children }: { kind: 'info' | 'warn' | 'bad'; children: ComponentChildren }) {
  return <p class={`note ${kind}`}>{children}</p>;
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly choose: (value: string) => void;
}

/** The label stands beside the list: around it, the texts of all options would be part of its name. */
export function Choice({ label, value, options, choose }: ChoiceProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([one, name]) => (
          <option key={one} value={one}>
            {name}
          </option>
        ))}
      </select>
    </div>
  );
}

interface TableProps {
  /** The id of its title. */
  readonly label: string;
  /** Empty: actions. */
  readonly columns: readonly string[];
  readonly children: ComponentChildren;
}

/** Scrolls sideways where it does not fit. */
export function Table({ label, columns, children }: TableProps) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-labelledby={label}>
      <table>
        <thead>
          <tr>
            {columns.map((name) => (
              <th key={name} scope="col">
                {name === '' ? <span class="unseen">Actions</span> : name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

interface PageButtonsProps {
  /** Where each page began that was looked at. */
  readonly starts: readonly string[];
  /** Where the page behind begins. */
  readonly next: string | undefined;
  readonly show: (starts: readonly string[]) => void;
}

/** Steps through a listing page by page. */
export function PageButtons({ starts, next, show }: PageButtonsProps) {
  return (
    <>
      <button type="button" disabled={starts.length === 1} onClick={() => show(starts.slice(0, -1))}>
        Page before
      </button>
      <button type="button" disabled={next === undefined} onClick={() => next !== undefined && show([...starts, next])}>
        Next page
      </button>
    </>
  );
}
