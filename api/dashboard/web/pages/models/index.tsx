import { Route, Switch } from 'wouter'
import { useModels } from '../../catalog.ts'
import { NotFound } from '../../components/page.tsx'
import { Show } from '../../components/states.tsx'
import { ModelDetail } from './detail.tsx'
import { ModelList } from './list.tsx'

export default function Models() {
  const models = useModels()
  return (
    <Show query={models} rows={12}>
      {rows => (
        <Switch>
          <Route path="/:organisation/models">
            <ModelList models={rows} />
          </Route>
          <Route path="/:organisation/models/*">
            {params => {
              const model = rows.find(({ id }) => id === params['*'])
              return model ? (
                <ModelDetail key={model.id} model={model} />
              ) : (
                <NotFound title="Model not found">This model is not in the gateway’s catalog.</NotFound>
              )
            }}
          </Route>
        </Switch>
      )}
    </Show>
  )
}
