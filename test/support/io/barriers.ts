import { AxeBuilder } from '@axe-core/playwright'
import type { Page } from 'playwright-core'

type Impact = 'minor' | 'moderate' | 'serious' | 'critical'

/** The rules of axe whose findings depend on the colours of a page. */
export const rulesOfColors = ['color-contrast', 'link-in-text-block']

/**
 * What axe finds on a page that keeps people out: `<rule>: <element> | <element>`. `rules`: these instead of axe's usual
 * ones; `further`: rules beside them; `impacts`: only of these, else of any.
 */
export async function findBarriers(
  page: Page,
  { rules, further = [], impacts }: { rules?: string[]; further?: string[]; impacts?: Impact[] } = {},
): Promise<string[]> {
  const enabled = Object.fromEntries(further.map(rule => [rule, { enabled: true }]))
  // To describe each element that passes takes half of the time.
  const scan = new AxeBuilder({ page }).options({ resultTypes: ['violations'], rules: enabled })
  if (rules) scan.withRules(rules)
  // All on the page itself: what axe opens besides costs as much as a page of ours.
  const { violations } = await scan.setLegacyMode().analyze()
  return violations
    .filter(({ impact }) => !impacts || impacts.includes(impact as Impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`)
}
