/** The page of one node, or that of `millracectl console` for a whole cluster. */
export type PageKind = 'node' | 'cluster';

export function kindOfPage(): PageKind {
  return document.documentElement.dataset['console'] === 'cluster' ? 'cluster' : 'node';
}
