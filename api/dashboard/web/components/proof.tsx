import { PasswordInput } from '@mantine/core'
import type { Me } from '../../wire/person.ts'
import { CodeInput, codeOf } from './code-input.tsx'

/** Asks for proof of identity: the password, or a code for users without a password. Renders nothing for users with neither. */
export function ProofInput({ me, value, onChange }: { me: Me; value: string; onChange: (value: string) => void }) {
  if (me.has_password)
    return (
      <PasswordInput
        label="Your password"
        required
        autoComplete="current-password"
        value={value}
        onChange={event => onChange(event.currentTarget.value)}
      />
    )
  return me.two_factor ? <CodeInput value={value} onChange={onChange} /> : null
}

/** The proof as the account routes take it. */
export function proofOf(me: Me, value: string): { password?: string; code?: string } {
  if (me.has_password) return { password: value }
  return me.two_factor ? { code: codeOf(value) } : {}
}
