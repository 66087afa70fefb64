import type { RequestDetail } from '../../../wire/requests.ts'
import { type Fact, Facts, Section } from '../../components/facts.tsx'
import { count } from '../../format.ts'

type Side = NonNullable<NonNullable<RequestDetail['guardrails']>['input']>

const outcomes: Record<NonNullable<Side['webhook']>, string> = {
  allowed: 'the guard allowed them',
  replaced: 'the guard replaced some',
  blocked: 'the guard refused them',
  failed_open: 'the guard gave no valid answer, and the request continued',
  failed_closed: 'the guard gave no valid answer, and the request was refused',
}

/** What guardrails did with the texts of a request. */
export function Guardrails({ request: { guardrails } }: { request: RequestDetail }) {
  if (guardrails === null) return null
  const { input, output } = guardrails
  const facts: (Fact | null)[] = [
    input ? ['Texts of the request', wordsOf(input), 'wide'] : null,
    output ? ['Texts of the answer', wordsOf(output), 'wide'] : null,
  ]
  return (
    <Section title="Guardrails">
      <Facts facts={facts} />
    </Section>
  )
}

function wordsOf({ masked, webhook, blocked }: Side): string {
  const words = [
    ...(masked === undefined ? [] : [`${count(masked)} ${masked === 1 ? 'value was' : 'values were'} masked`]),
    ...(webhook === undefined ? [] : [outcomes[webhook]]),
    ...(blocked === undefined ? [] : [`refused by the detector “${blocked}”`]),
  ]
  return words.length === 0 ? 'checked' : words.join('; ')
}
