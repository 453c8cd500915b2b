// Command pocketbase serves a collection of workspaces with PocketBase, for the
// comparison in the folder above. It is a separate module, so that only this comparison
// downloads PocketBase.
//
// It is as fast as possible with durable records. Every commit is flushed. No request
// needs a login, and none is logged.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"

	"github.com/pocketbase/dbx"
	"github.com/pocketbase/pocketbase/apis"
	"github.com/pocketbase/pocketbase/core"
	_ "github.com/pocketbase/pocketbase/migrations"
)

func main() {
	log.SetFlags(0)
	folder := flag.String("folder", "", "where to store")
	address := flag.String("address", "", "host and port to listen on")
	flag.Parse()
	if *folder == "" || *address == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := serve(*folder, *address); err != nil {
		log.Fatal(err)
	}
}

func serve(folder, address string) error {
	app := core.NewBaseApp(core.BaseAppConfig{DataDir: folder, DBConnect: connect})
	if err := app.Bootstrap(); err != nil {
		return err
	}
	if err := app.RunAllMigrations(); err != nil {
		return err
	}
	var synchronous int
	if err := app.NonconcurrentDB().NewQuery("PRAGMA synchronous").Row(&synchronous); err != nil {
		return err
	}
	if synchronous != full {
		return fmt.Errorf("synchronous is %d, want %d", synchronous, full)
	}
	app.Settings().Logs.MaxDays = 0
	if err := app.Save(app.Settings()); err != nil {
		return err
	}
	if err := app.Save(workspaces()); err != nil {
		return err
	}
	app.OnServe().BindFunc(func(e *core.ServeEvent) error {
		e.InstallerFunc = nil // it would open a browser
		return e.Next()
	})
	return apis.Serve(app, apis.ServeConfig{HttpAddr: address})
}

// full is SQLite's code for synchronous = FULL.
const full = 2

// connect opens a database file with PocketBase's settings, except that synchronous is
// FULL instead of NORMAL. So a commit waits for the disk.
func connect(file string) (*dbx.DB, error) {
	settings := url.Values{"_pragma": {
		"busy_timeout(10000)", // first, because the next one may have to wait
		"journal_mode(WAL)",
		"journal_size_limit(200000000)",
		"synchronous(FULL)",
		"foreign_keys(ON)",
		"temp_store(MEMORY)",
		"cache_size(-32000)",
	}}
	return dbx.Open("sqlite", file+"?"+settings.Encode())
}

// workspaces returns a collection of records with the fields of a workspace and a unique
// slug.
func workspaces() *core.Collection {
	c := core.NewBaseCollection("workspaces")
	anyone := ""
	c.CreateRule, c.ViewRule, c.ListRule = &anyone, &anyone, &anyone
	id := c.Fields.GetByName("id").(*core.TextField)
	id.Min, id.Max, id.AutogeneratePattern = 36, 36, "[a-z0-9]{36}" // as long as a UUID
	c.Fields.Add(
		&core.TextField{Name: "name", Required: true, Max: 100},
		&core.TextField{Name: "slug", Required: true, Max: 50, Pattern: `^[a-z0-9]+(?:-[a-z0-9]+)*$`},
		&core.TextField{Name: "description", Max: 500},
		&core.TextField{Name: "default_text_model"},
		&core.TextField{Name: "default_image_model"},
		&core.TextField{Name: "default_provider_sort"},
		&core.TextField{Name: "default_guardrail_id"},
		&core.JSONField{Name: "io_logging_api_key_ids"},
		&core.NumberField{Name: "io_logging_sampling_rate"},
		&core.BoolField{Name: "is_data_discount_logging_enabled"},
		&core.BoolField{Name: "is_observability_broadcast_enabled"},
		&core.BoolField{Name: "is_observability_io_logging_enabled"},
		&core.TextField{Name: "created_by"},
		&core.JSONField{Name: "disabled_server_tools"},
		&core.AutodateField{Name: "created_at", OnCreate: true},
		&core.AutodateField{Name: "updated_at", OnUpdate: true},
	)
	c.AddIndex("workspaces_slug", true, "slug", "")
	return c
}
