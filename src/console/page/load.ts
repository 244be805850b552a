import { useEffect, useState } from 'preact/hooks';
import { caughtMessage } from '../../base/caught.ts';

export interface LoadedPage<T> {
  readonly value: T | undefined;
  /** Why there is no value, or none newer. */
  readonly problem: string | undefined;
  readonly isLoading: boolean;
  readonly again: () => void;
}

/** Calls `load` each time that `key` changes or `again` is called. Drops answers for an earlier key. */
export function useLoad<T>(key: string, load: (signal: AbortSignal) => Promise<T>): LoadedPage<T> {
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState<Omit<LoadedPage<T>, 'again'> & { readonly key: string }>();
  useEffect(() => {
    const ended = new AbortController();
    setState((before) => ({
      key,
      value: before?.key === key ? before.value : undefined,
      problem: undefined,
      isLoading: true,
    }));
    load(ended.signal).then(
      (value) => ended.signal.aborted || setState({ key, value, problem: undefined, isLoading: false }),
      (error: unknown) =>
        ended.signal.aborted ||
        setState((before) => ({ key, value: before?.value, problem: caughtMessage(error), isLoading: false })),
    );
    return () => ended.abort();
  }, [key, turn]);
  const { value, problem, isLoading = true } = state ?? {};
  return { value, problem, isLoading, again: () => setTurn((count) => count + 1) };
}
