import { Button, type ButtonProps, Stack } from '@mantine/core'
import type { UseMutationResult } from '@tanstack/react-query'
import type { FormEvent, ReactNode } from 'react'
import { Failure } from './states.tsx'

/** A form that runs a mutation: one submit at a time, its failure above the button. */
export function Form<T>({
  mutation,
  submit,
  children,
  ...button
}: {
  mutation: UseMutationResult<T, Error, void>
  /** What the button says. */
  submit: string
  children: ReactNode
} & ButtonProps) {
  const send = (event: FormEvent) => {
    event.preventDefault()
    if (!mutation.isPending) mutation.mutate()
  }
  return (
    <form onSubmit={send}>
      <Stack>
        {children}
        {mutation.error && <Failure error={mutation.error} />}
        <Button type="submit" loading={mutation.isPending} {...button}>
          {submit}
        </Button>
      </Stack>
    </form>
  )
}
