import { TextInput } from '@mantine/core'
import { useEffect, useRef } from 'react'

/** A code of an authenticator app. `focused`: it takes the focus when it appears, as the one thing to do. */
export function CodeInput({
  value,
  onChange,
  label = 'Code of your authenticator app',
  focused = false,
}: {
  value: string
  onChange: (value: string) => void
  label?: string
  focused?: boolean
}) {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (focused) input.current?.focus()
  }, [focused])
  return (
    <TextInput
      ref={input}
      label={label}
      description="Six digits, a new one every 30 seconds."
      inputMode="numeric"
      autoComplete="one-time-code"
      pattern="[0-9]{3} ?[0-9]{3}"
      title="Six digits"
      maxLength={7}
      required
      maw={260}
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    />
  )
}

/** A code as the gateway takes it: apps show it in two groups. */
export const codeOf = (text: string) => text.replace(/\s/g, '')
